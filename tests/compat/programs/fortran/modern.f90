! SPDX-License-Identifier: MIT
! The module skep: sizes are checked, arrays of any rank, requests of their own type.
program modern
  use skep
  use, intrinsic :: iso_c_binding
  implicit none
  real(8), target :: a(2, 3), r(1), y(4), x(4)
  type(skep_request) :: requests(4)
  integer :: i, n, code
  real(4) :: g

  call skep_init()
  a = 2
  call skep_call("fortran.inner_product", 6, a, a, r)
  if (r(1) /= 24) stop 1
  call skep_module_init("fortran", 5.0d0)
  x = [1, 2, 3, 4]
  do i = 1, 4
    call skep_call_async(requests(i), "fortran.weighted", x(i), y(i))
  end do
  n = skep_wait_any(requests)
  if (n < 1 .or. n > 4) stop 2
  if (y(n) /= 5 * n) stop 3
  call skep_wait_all(requests)
  if (any(y /= 5 * x) .or. .not. skep_ended(requests(1))) stop 4
  call skep_call("fortran.counted", "text" // c_null_char, n, 2.5, g, status=code)
  if (n /= 4 .or. g /= 5 .or. code /= 0) stop 5
  call skep_finalize()
  print "(a)", "right"
end program
