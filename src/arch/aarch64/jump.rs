//! Functions that jump to where a static variable points.

/// Defines a hidden function with C's name `$name`, which jumps to the function whose address is in `$slot`, an
/// `AtomicPtr`. No register is changed but x16, which the procedure call standard leaves to such code.
macro_rules! jump {
    ($name:ident, $slot:path) => {
        std::arch::global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",%progbits"),
            ".balign 4",
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",%function"),
            concat!(stringify!($name), ":"),
            "adrp x16, {slot}",
            "ldr x16, [x16, :lo12:{slot}]",
            "br x16",
            ".popsection",
            slot = sym $slot,
        );
    };
}
pub(crate) use jump;
