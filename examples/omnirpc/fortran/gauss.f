C SPDX-License-Identifier: MIT
C Solves the symmetric system a x = b by elimination; x is b before.
      subroutine gauss(n, a, x, w)
      integer n, i, j, k
      double precision a(n, n), x(n), w(n, n), f
      do 20 j = 1, n
         do 10 i = 1, n
            w(i, j) = a(i, j)
 10      continue
 20   continue
      do 50 k = 1, n
         do 40 i = k + 1, n
            f = w(i, k) / w(k, k)
            do 30 j = k, n
               w(i, j) = w(i, j) - f * w(k, j)
 30         continue
            x(i) = x(i) - f * x(k)
 40      continue
 50   continue
      do 70 i = n, 1, -1
         do 60 j = i + 1, n
            x(i) = x(i) - w(i, j) * x(j)
 60      continue
         x(i) = x(i) / w(i, i)
 70   continue
      end
