C SPDX-License-Identifier: MIT
C Requests in integers of 8 bytes, and a thousand calls by one variable.
      integer*8 ireq(8), one
      double precision y(8), x
      integer i
      call omnirpc_init
      do 10 i = 1, 8
         x = i
         call omnirpc_call_async(ireq(i), 'fortran.weighted*', x, y(i))
 10   continue
      call omnirpc_wait_all(8, ireq)
      do 20 i = 1, 8
         if (y(i) .ne. i) stop 1
 20   continue
      do 30 i = 1, 1000
         x = i
         call omnirpc_call_async(one, 'fortran.weighted*', x, y(1))
         call omnirpc_wait(one)
         if (y(1) .ne. i) stop 2
 30   continue
      call omnirpc_finalize
      write (*, '(a)') 'right'
      end
