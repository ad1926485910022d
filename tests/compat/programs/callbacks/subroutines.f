C SPDX-License-Identifier: MIT
C Subroutines of this program that workers call.
      double precision x(3)
      integer total, ireq(2), sums(2), i
      external newton, addup, askin
      x(1) = 2
      x(2) = 2
      x(3) = 2
      call omnirpc_init
      call omnirpc_call('callbacks.iterate*', 3, x, newton)
      do 10 i = 1, 3
         if (abs(x(i) - sqrt(dble(i))) .gt. 1d-9) stop 1
 10   continue
      total = 0
      call omnirpc_call('callbacks.count*', 10, total, addup)
      if (total .ne. 10) stop 2
      do 20 i = 1, 2
         call omnirpc_call_async(ireq(i), 'callbacks.count*', i,
     &        sums(i), askin)
 20   continue
      call omnirpc_wait_all(2, ireq)
      if (sums(1) .ne. 100 .or. sums(2) .ne. 200) stop 3
      call omnirpc_finalize
      write (*, '(a)') 'right'
      end

      subroutine newton(i, f, m, y, z, err, name)
      integer i, j
      real f
      integer*8 m
      double precision y(3), z(3), err
      character*1 name(4)
      if (f .ne. 0.5 .or. m .ne. 5000000000_8) stop 4
      if (name(1) .ne. 'n' .or. name(4) .ne. 'e') stop 5
      if (i .eq. 1 .and. err .ne. 1) stop 6
      err = 0
      do 10 j = 1, 3
         z(j) = f * (y(j) + j / y(j))
         err = max(err, abs(z(j) - y(j)))
 10   continue
      end

      subroutine addup(i, total)
      integer i, total, calls
      save calls
      data calls /0/
      calls = calls + 1
      if (i .ne. calls) stop 7
      total = i
      end

C Calls in turn.
      subroutine askin(i, total)
      integer i, total, y
      y = 0
      call omnirpc_call('callbacks.twice*', 50 * i, y)
      total = y
      end
