! Computes 1*4 + 2*5 + 3*6 from Fortran, and reads the text of an error.
program use
    use, intrinsic :: iso_c_binding
    implicit none

    interface
        integer(c_int32_t) function gpuvec_dot_f32(a, b, out, n, stream) bind(c)
            import :: c_float, c_int32_t, c_ptr, c_size_t
            real(c_float), intent(in) :: a(*), b(*)
            real(c_float), intent(out) :: out
            integer(c_size_t), value :: n
            type(c_ptr), value :: stream
        end function

        type(c_ptr) function gpuvec_last_error() bind(c)
            import :: c_ptr
        end function
    end interface

    integer(c_int32_t), parameter :: ok = 0, wrong_handle = 108
    real(c_float) :: dot
    character(kind=c_char), pointer :: text(:)

    if (gpuvec_dot_f32([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], dot, 3_c_size_t, c_null_ptr) /= ok) stop 1
    print '(i0)', int(dot)

    if (gpuvec_dot_f32([1.0], [1.0], dot, 1_c_size_t, transfer(1_c_intptr_t, c_null_ptr)) &
        /= wrong_handle) stop 2
    call c_f_pointer(gpuvec_last_error(), text, [6])
    print '(6a)', text
end program
