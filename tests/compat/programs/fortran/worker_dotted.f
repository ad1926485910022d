C SPDX-License-Identifier: MIT
      subroutine dotted(n, a, b, r)
      integer n, i
      double precision a(n), b(n), r
      r = 0
      do 10 i = 1, n
         r = r + a(i) * b(i)
 10   continue
      end
