! SPDX-License-Identifier: MIT
! Calls of the module skep that are refused; the argument selects one.
program modern
  use skep
  implicit none
  character(16) :: which
  real(8) :: a(2, 3)
  call get_command_argument(1, which)
  call skep_init()
  if (which == "elements") call skep_call("fails.spread", 5, a)
  if (which == "gaps") call skep_call("fails.spread", 2, a(1, 1:2))
  if (which == "few") call skep_call("fails.spread", 5)
  if (which == "number") call skep_call("fails.stepped", 5, a(1, 1))
  if (which == "array") call skep_call("fails.stepped", 5, a)
  if (which == "text") call skep_call("fails.spoken", skep_procedure(modern_step))
  print *, "result"
contains
  subroutine modern_step(i)
    integer, intent(in) :: i
    print *, "result", i
  end subroutine
end program
