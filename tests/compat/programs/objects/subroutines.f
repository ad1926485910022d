C SPDX-License-Identifier: MIT
C Remote objects, by OmniRPC's kind of subroutines.
      program main
      integer*8 a, b, r(9), got
      integer i, times
      double precision x
      call OMNIRPC_INIT
      call OMNIRPC_CREATE_OBJECT(a, '*', 'objects/sum*')
      call OMNIRPC_CREATE_OBJECT(b, '*', 'objects.sum*')
      do 10 i = 1, 9
        call OMNIRPC_CALL_ASYNC_BY_OBJECT(r(i), a, 'digits*', i)
   10 continue
      call OMNIRPC_CALL_BY_OBJECT(b, 'add*', 2.5d0)
      call OMNIRPC_CALL_ASYNC_BY_OBJECT(got, a, 'get*', x, times)
      call OMNIRPC_WAIT_ALL(9, r)
      call OMNIRPC_WAIT(got)
      if (x .ne. 123456789d0) call exit(1)
      call OMNIRPC_CALL_BY_OBJECT(b, 'get*', x, times)
      if (x .ne. 2.5d0 .or. times .ne. 1) call exit(2)
      call OMNIRPC_DESTROY_OBJECT(a)
      call OMNIRPC_CREATE_OBJECT(a, '*', 'objects/sum*')
      call OMNIRPC_CALL_BY_OBJECT(a, 'get*', x, times)
      if (x .ne. 0d0) call exit(3)
      call OMNIRPC_DESTROY_OBJECT(a)
      call OMNIRPC_DESTROY_OBJECT(b)
      call OMNIRPC_FINALIZE
      print '(a)', 'right'
      end
