! SPDX-License-Identifier: MIT
! Remote objects in the module skep: state, order, what is refused.
subroutine give_next(i, x)
  integer, intent(in) :: i
  real(8), intent(out) :: x(1)
  x(1) = i + 1
end subroutine

program main
  use skep
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function setenv(name, value, over) bind(C)
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*), value(*)
      integer(c_int), value :: over
    end function
  end interface
  external :: give_next
  type(skep_object) :: a, b
  type(skep_request) :: r(9), got
  real(8) :: x = 0, before = -1
  real(8), target :: late = 0
  integer :: i, times, status
  integer, target :: often
  status = setenv("SKEP_ERRORS" // c_null_char, "return" // c_null_char, 1_c_int)
  call skep_init()
  call skep_create_object(a, "objects/sum")
  call skep_create_object(b, "objects.sum", host="")
  do i = 1, 9
    call skep_call_method_async(r(i), a, "digits", i)
  end do
  call skep_call_method_async(got, a, "get", late, often)
  call skep_call_method(b, "keep", 3, [1d0, 2d0, 3d0], before)
  call skep_call_method(b, "each", 2, skep_procedure(give_next))
  call skep_wait_all(r)
  call skep_wait(got)
  if (late /= 123456789d0 .or. before /= 0) error stop 1
  call skep_call_method(b, "get", x, times)
  if (x /= 9) error stop 2
  call skep_destroy_object(a)
  call skep_call_method(b, "next", i, status=status)
  if (status /= -105 .or. index(skep_error(), "has no method next") == 0) error stop 3
  call skep_call_method(b, "keep", 3, [1d0, 2d0], before, status=status)
  if (status /= -106 .or. index(skep_error(), "has 2 elements and must have 3") == 0) error stop 4
  call skep_call_method(a, "get", x, times, status=status)
  if (status /= -1 .or. index(skep_error(), "or it was destroyed") == 0) error stop 5
  call skep_create_object(a, "objects/none", status=status)
  if (status /= -105) error stop 6
  call skep_destroy_object(a, status)
  if (status /= -1) error stop 7
  call skep_destroy_object(b)
  call skep_finalize()
  print '(a)', "right"
end program
