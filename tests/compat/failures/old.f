C SPDX-License-Identifier: MIT
C Calls of Fortran that cannot be answered; the argument selects one.
      character*16 which
      character*300 long
      integer n, r
      double precision a(2)
      call getarg(1, which)
      call omnirpc_init
      n = 2
      if (which .eq. 'request') call omnirpc_wait(n)
      if (which .eq. 'handle')
     &   call omnirpc_call_by_handle(n, 'good*', r)
      if (which .eq. 'string') call omnirpc_call('fails.told*', r)
      if (which .eq. 'name') then
         long = repeat('x', 300)
         call omnirpc_call(long, r)
      end if
      if (which .eq. 'module') call omnirpc_module_init('fails*', n)
      if (which .eq. 'negative')
     &   call omnirpc_call('fails.spread*', -1, a)
      if (which .eq. 'text') call omnirpc_call('fails.spoken*', n)
      write (*, '(a)') 'result'
      end
