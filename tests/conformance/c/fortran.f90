! SPDX-License-Identifier: MIT
! Fortran's run-time library: arrays, internal files, formatted output.
program fortran
  implicit none
  real(8) :: a(100, 100), b(100, 100), c(100, 100)
  character(len=32) :: text
  integer :: i, j, n

  do j = 1, 100
    do i = 1, 100
      a(i, j) = i + j / 7.0d0
      b(i, j) = i - j / 3.0d0
    end do
  end do
  c = matmul(a, transpose(b))
  write (*, '(a, es22.14)') 'sum', sum(c)
  write (text, '(i8)') 12345
  read (text, *) n
  print '(a, i6, 2x, l1)', 'read', n, n == 12345
  open (10, file='fortran.txt', status='replace')
  write (10, *) (i * 0.5d0, i=1, 10)
  rewind (10)
  read (10, *) (a(i, 1), i=1, 10)
  close (10, status='delete')
  print '(10f5.1)', a(1:10, 1)
  stop 4
end program
