! SPDX-License-Identifier: MIT
!
! The module skep: OmniRPC for modern Fortran. `skep gen --master` and omrpc-fc compile
! it together with programs that use it.
!
! Arguments are scalars and contiguous arrays of any type, at most 16. An argument that
! has another number of elements than the interface file says is an error. Strings end
! in c_null_char. A subroutine that workers call is given as skep_procedure(NAME). As in
! C, a failed call ends the program with exit code 1; with SKEP_ERRORS=return in the
! environment `status` is a negative code, and skep_error the sentence about it.
module skep
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: skep_init, skep_finalize, skep_module_init, skep_call, skep_call_async
  public :: skep_wait, skep_wait_all, skep_wait_any, skep_ended, skep_error
  public :: skep_request, skep_function, skep_procedure
  public :: skep_object, skep_create_object, skep_destroy_object
  public :: skep_call_method, skep_call_method_async

  integer, parameter :: arguments_max = 16

  ! A call under way. Its OUT and INOUT arguments need the target or asynchronous
  ! attribute, and must live until skep_wait.
  type :: skep_request
    private
    type(c_ptr) :: at = c_null_ptr
  end type

  ! An object of a class of an interface file.
  type :: skep_object
    private
    type(c_ptr) :: at = c_null_ptr
  end type

  ! A subroutine of the program that workers call. `mark` tells it from other arguments.
  type, bind(C) :: skep_function
    integer(c_int64_t) :: mark = 27988559997725555_c_int64_t
    type(c_funptr) :: at = c_null_funptr
  end type

  type :: arguments
    integer(c_int) :: count = 0
    logical :: contiguous = .true.
    type(c_ptr) :: at(arguments_max)
    integer(c_int64_t) :: elements(arguments_max)
  end type

  interface
    integer(c_int) function c_init(argc, argv) bind(C, name="OmniRpcInit")
      import :: c_int, c_ptr
      type(c_ptr), value :: argc, argv
    end function
    integer(c_int) function c_finalize() bind(C, name="OmniRpcFinalize")
      import :: c_int
    end function
    type(c_ptr) function c_start(name, init, count, at, elements) &
        bind(C, name="skep_fortran_start")
      import :: c_ptr, c_char, c_int, c_int64_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: init, count
      type(c_ptr), intent(in) :: at(*)
      integer(c_int64_t), intent(in) :: elements(*)
    end function
    type(c_ptr) function c_method(object, name, count, at, elements) &
        bind(C, name="skep_fortran_method")
      import :: c_ptr, c_char, c_int, c_int64_t
      type(c_ptr), value :: object
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: count
      type(c_ptr), intent(in) :: at(*)
      integer(c_int64_t), intent(in) :: elements(*)
    end function
    type(c_ptr) function c_create(host, name) bind(C, name="OmniRpcCreateObject")
      import :: c_ptr, c_char
      character(kind=c_char), intent(in) :: host(*), name(*)
    end function
    integer(c_int) function c_destroy_object(object) bind(C, name="OmniRpcDestroyObject")
      import :: c_int, c_ptr
      type(c_ptr), value :: object
    end function
    integer(c_int) function c_fail(name) bind(C, name="skep_fortran_fail")
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_wait(request) bind(C, name="OmniRpcWait")
      import :: c_int, c_ptr
      type(c_ptr), value :: request
    end function
    integer(c_int) function c_probe(request) bind(C, name="OmniRpcProbe")
      import :: c_int, c_ptr
      type(c_ptr), value :: request
    end function
    integer(c_int) function c_wait_any(count, request) bind(C, name="OmniRpcWaitAny")
      import :: c_int, c_ptr
      integer(c_int), value :: count
      type(c_ptr), intent(in) :: request(*)
    end function
    integer(c_int) function c_destroy(request) bind(C, name="OmniRpcDestroyRequest")
      import :: c_int, c_ptr
      type(c_ptr), value :: request
    end function
    type(c_ptr) function c_error() bind(C, name="OmniRpcLastErrorText")
      import :: c_ptr
    end function
    integer(c_size_t) function c_length(text) bind(C, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  subroutine skep_init(status)
    integer, intent(out), optional :: status
    integer(c_int) :: code
    code = c_init(c_null_ptr, c_null_ptr)
    if (present(status)) status = code
  end subroutine

  subroutine skep_finalize(status)
    integer, intent(out), optional :: status
    integer(c_int) :: code
    code = c_finalize()
    if (present(status)) status = code
  end subroutine

  type(skep_function) function skep_procedure(called)
    external :: called
    skep_procedure%at = c_funloc(called)
  end function

  subroutine add(list, elements, contiguous, at)
    type(arguments), intent(inout) :: list
    integer(c_int64_t), intent(in) :: elements
    logical, intent(in) :: contiguous
    type(c_ptr), intent(in) :: at
    list%count = list%count + 1
    list%elements(list%count) = elements
    list%at(list%count) = at
    list%contiguous = list%contiguous .and. contiguous
  end subroutine

  subroutine collect(list, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16)
    type(arguments), intent(inout) :: list
    type(*), dimension(..), target, optional :: &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16
    if (present(a1)) call add(list, size(a1, kind=c_int64_t), is_contiguous(a1), c_loc(a1))
    if (present(a2)) call add(list, size(a2, kind=c_int64_t), is_contiguous(a2), c_loc(a2))
    if (present(a3)) call add(list, size(a3, kind=c_int64_t), is_contiguous(a3), c_loc(a3))
    if (present(a4)) call add(list, size(a4, kind=c_int64_t), is_contiguous(a4), c_loc(a4))
    if (present(a5)) call add(list, size(a5, kind=c_int64_t), is_contiguous(a5), c_loc(a5))
    if (present(a6)) call add(list, size(a6, kind=c_int64_t), is_contiguous(a6), c_loc(a6))
    if (present(a7)) call add(list, size(a7, kind=c_int64_t), is_contiguous(a7), c_loc(a7))
    if (present(a8)) call add(list, size(a8, kind=c_int64_t), is_contiguous(a8), c_loc(a8))
    if (present(a9)) call add(list, size(a9, kind=c_int64_t), is_contiguous(a9), c_loc(a9))
    if (present(a10)) call add(list, size(a10, kind=c_int64_t), is_contiguous(a10), c_loc(a10))
    if (present(a11)) call add(list, size(a11, kind=c_int64_t), is_contiguous(a11), c_loc(a11))
    if (present(a12)) call add(list, size(a12, kind=c_int64_t), is_contiguous(a12), c_loc(a12))
    if (present(a13)) call add(list, size(a13, kind=c_int64_t), is_contiguous(a13), c_loc(a13))
    if (present(a14)) call add(list, size(a14, kind=c_int64_t), is_contiguous(a14), c_loc(a14))
    if (present(a15)) call add(list, size(a15, kind=c_int64_t), is_contiguous(a15), c_loc(a15))
    if (present(a16)) call add(list, size(a16, kind=c_int64_t), is_contiguous(a16), c_loc(a16))
  end subroutine

  type(c_ptr) function start(name, init, list, status)
    character(len=*), intent(in) :: name
    integer(c_int), intent(in) :: init
    type(arguments), intent(in) :: list
    integer, intent(out), optional :: status
    call check(list)
    start = c_start(trim(name) // c_null_char, init, list%count, list%at, list%elements)
    call report(start, name, status)
  end function

  type(c_ptr) function start_method(object, name, list, status)
    type(skep_object), intent(in) :: object
    character(len=*), intent(in) :: name
    type(arguments), intent(in) :: list
    integer, intent(out), optional :: status
    call check(list)
    start_method = c_method(object%at, trim(name) // c_null_char, list%count, list%at, &
      list%elements)
    call report(start_method, name, status)
  end function

  subroutine check(list)
    type(arguments), intent(in) :: list
    if (.not. list%contiguous) error stop "skep: an array of a call is not contiguous"
  end subroutine

  subroutine report(started, name, status)
    type(c_ptr), intent(in) :: started
    character(len=*), intent(in) :: name
    integer, intent(out), optional :: status
    integer(c_int) :: code
    code = 0
    if (.not. c_associated(started)) code = c_fail(trim(name) // c_null_char)
    if (present(status)) status = code
  end subroutine

  subroutine finish(at, status)
    type(c_ptr), intent(in) :: at
    integer, intent(inout), optional :: status
    integer(c_int) :: code
    if (.not. c_associated(at)) return
    code = c_wait(at)
    if (present(status)) status = code
    code = c_destroy(at)
  end subroutine

  subroutine skep_call(name, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, status)
    character(len=*), intent(in) :: name
    type(*), dimension(..), target, optional :: &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16
    integer, intent(out), optional :: status
    type(arguments) :: list
    call collect(list, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16)
    call finish(start(name, 0, list, status), status)
  end subroutine

  subroutine skep_call_async(request, name, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, status)
    type(skep_request), intent(out) :: request
    character(len=*), intent(in) :: name
    type(*), dimension(..), target, optional :: &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16
    integer, intent(out), optional :: status
    type(arguments) :: list
    call collect(list, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16)
    request%at = start(name, 0, list, status)
  end subroutine

  ! `name` is a module's; workers that start from now on get its Initialize first.
  subroutine skep_module_init(name, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, status)
    character(len=*), intent(in) :: name
    type(*), dimension(..), target, optional :: &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16
    integer, intent(out), optional :: status
    type(arguments) :: list
    call collect(list, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16)
    call finish(start(name, 1, list, status), status)
  end subroutine

  ! An object of a class, "module/class", on this node or on one that the hub chooses.
  subroutine skep_create_object(object, name, host, status)
    type(skep_object), intent(out) :: object
    character(len=*), intent(in) :: name
    character(len=*), intent(in), optional :: host
    integer, intent(out), optional :: status
    if (present(status)) status = 0
    if (present(host)) then
      object%at = c_create(trim(host) // c_null_char, trim(name) // c_null_char)
    else
      object%at = c_create(c_null_char, trim(name) // c_null_char)
    end if
    if (.not. c_associated(object%at)) call report(object%at, name, status)
  end subroutine

  subroutine skep_destroy_object(object, status)
    type(skep_object), intent(inout) :: object
    integer, intent(out), optional :: status
    integer(c_int) :: code
    code = c_destroy_object(object%at)
    if (present(status)) status = code
    object%at = c_null_ptr
  end subroutine

  subroutine skep_call_method(object, name, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, status)
    type(skep_object), intent(in) :: object
    character(len=*), intent(in) :: name
    type(*), dimension(..), target, optional :: &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16
    integer, intent(out), optional :: status
    type(arguments) :: list
    call collect(list, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16)
    call finish(start_method(object, name, list, status), status)
  end subroutine

  subroutine skep_call_method_async(request, object, name, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, status)
    type(skep_request), intent(out) :: request
    type(skep_object), intent(in) :: object
    character(len=*), intent(in) :: name
    type(*), dimension(..), target, optional :: &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16
    integer, intent(out), optional :: status
    type(arguments) :: list
    call collect(list, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16)
    request%at = start_method(object, name, list, status)
  end subroutine

  subroutine skep_wait(request, status)
    type(skep_request), intent(inout) :: request
    integer, intent(out), optional :: status
    if (present(status)) status = 0
    call finish(request%at, status)
    request%at = c_null_ptr
  end subroutine

  subroutine skep_wait_all(requests)
    type(skep_request), intent(inout) :: requests(:)
    integer :: i
    do i = 1, size(requests)
      call skep_wait(requests(i))
    end do
  end subroutine

  ! The index of a call that has ended and is not waited for yet; 0 if there is none.
  integer function skep_wait_any(requests) result(found)
    type(skep_request), intent(inout) :: requests(:)
    integer :: i
    found = c_wait_any(int(size(requests), c_int), [(requests(i)%at, i=1, size(requests))]) + 1
    if (found > 0) call skep_wait(requests(found))
  end function

  logical function skep_ended(request)
    type(skep_request), intent(in) :: request
    skep_ended = .true.
    if (c_associated(request%at)) skep_ended = c_probe(request%at) /= 0
  end function

  function skep_error() result(sentence)
    character(len=:), allocatable :: sentence
    character(kind=c_char), pointer :: text(:)
    type(c_ptr) :: at
    integer :: i
    at = c_error()
    call c_f_pointer(at, text, [c_length(at)])
    allocate(character(len=size(text)) :: sentence)
    do i = 1, size(text)
      sentence(i:i) = text(i)
    end do
  end function
end module skep
