C SPDX-License-Identifier: MIT
C Calls a subroutine of the master until it says that it is near enough.
      subroutine iterate(n, x, next)
      integer n, i, j
      double precision x(n), y(100), err
      integer*8 m
      character*1 name(4)
      external next
      data name /'n', 'a', 'm', 'e'/
      err = 1
      m = 5000000000_8
      do 30 i = 1, 50
         do 10 j = 1, n
            y(j) = x(j)
 10      continue
         call next(i, 0.5, m, y, x, err, name)
         if (err .lt. 1d-12) return
 30   continue
      end
