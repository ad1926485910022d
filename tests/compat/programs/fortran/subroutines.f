C SPDX-License-Identifier: MIT
C All 13 subroutines; requests and handles are integers.
      double precision a(10), b(10), r, y(4), w
      real f, g
      integer ireq(4), ihandle, i, n, ended, seen(4)
      call omnirpc_init
      do 10 i = 1, 10
         a(i) = i
         b(i) = 2 * i
 10   continue
      r = 0
      call omnirpc_call('fortran.inner_product*', 10, a, b, r)
      if (r .ne. 770) stop 1
      w = 3
      call omnirpc_module_init('fortran*', w)
      do 20 i = 1, 4
         seen(i) = 0
         call omnirpc_call_async(ireq(i), 'weighted*', a(i), y(i))
 20   continue
      call omnirpc_wait_all(4, ireq)
      do 30 i = 1, 4
         if (y(i) .ne. 3 * i) stop 2
 30   continue
      do 40 i = 1, 4
         call omnirpc_call_async(ireq(i), 'weighted*', b(i), y(i))
 40   continue
      do 50 i = 1, 4
         call omnirpc_wait_any(4, ireq, n)
         if (n .lt. 0 .or. n .gt. 3) stop 3
         if (seen(n + 1) .ne. 0) stop 4
         if (y(n + 1) .ne. 6 * (n + 1)) stop 5
         seen(n + 1) = 1
 50   continue
      call omnirpc_create_handle(ihandle, '*', 'fortran*')
      f = 1.5
      n = 0
      call omnirpc_call_by_handle(ihandle, 'counted*',
     &     'twelve chars' // char(0), n, f, g)
      if (n .ne. 12 .or. g .ne. 3) stop 6
      call omnirpc_call_async_by_handle(ireq(1), ihandle, 'weighted*',
     &     w, r)
 60   call omnirpc_probe(ireq(1), ended)
      if (ended .eq. 0) goto 60
      call omnirpc_wait(ireq(1))
      if (r .ne. 9) stop 7
      call omnirpc_destroy_handle(ihandle)
      call omnirpc_finalize
      write (*, '(a)') 'right'
      end
