C SPDX-License-Identifier: MIT
C Four right sides of one system, one call for each. A WORK array has an argument that is
C not used.
      integer n, m
      parameter (n = 50, m = 4)
      double precision a(n, n), x(n, m), none(1), worst
      integer ireq(m), i, j
      do 20 j = 1, n
         do 10 i = 1, n
            a(i, j) = 1
 10      continue
         a(j, j) = n
 20   continue
      do 40 j = 1, m
         do 30 i = 1, n
            x(i, j) = (2 * n - 1) * j
 30      continue
 40   continue
      call omnirpc_init
      do 50 j = 1, m
         call omnirpc_call_async(ireq(j), 'solve.gauss*', n, a,
     &                           x(1, j), none)
 50   continue
      call omnirpc_wait_all(m, ireq)
      call omnirpc_finalize
      worst = 0
      do 70 j = 1, m
         do 60 i = 1, n
            worst = max(worst, abs(x(i, j) - j))
 60      continue
 70   continue
      if (worst .lt. 1d-10) write (*, '(a)') 'all four are solved'
      end
