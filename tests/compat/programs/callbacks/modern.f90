! SPDX-License-Identifier: MIT
! Subroutines of this program that workers call, through the module skep.
module steps
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: calls = 0
contains
  subroutine add_up(i, total)
    integer(c_int), intent(in) :: i
    integer(c_int), intent(out) :: total
    calls = calls + 1
    total = 10 * i
  end subroutine
end module

program modern
  use skep
  use steps
  implicit none
  type(skep_request) :: request
  integer, target :: total, later
  real(8) :: x(2) = [1, 4]
  call skep_init()
  call skep_call("callbacks.count", 7, total, skep_procedure(add_up))
  if (total /= 70 .or. calls /= 7) stop 1
  call skep_call_async(request, "callbacks.count", 3, later, skep_procedure(add_up))
  call skep_wait(request)
  if (later /= 30) stop 2
  call skep_call("callbacks.iterate", 2, x, skep_procedure(halve))
  if (abs(x(1)) > 1e-11 .or. abs(x(2)) > 1e-11) stop 3
  call skep_finalize()
  print "(a)", "right"
contains
  subroutine halve(i, f, m, y, z, err, name)
    integer, intent(in) :: i
    real, intent(in) :: f
    integer(8), intent(in) :: m
    real(8), intent(in) :: y(2)
    real(8), intent(out) :: z(2)
    real(8), intent(inout) :: err
    character, intent(in) :: name(4)
    if (i < 1 .or. m /= 5000000000_8 .or. name(2) /= "a") stop 4
    z = f * y
    err = maxval(abs(z))
  end subroutine
end program
