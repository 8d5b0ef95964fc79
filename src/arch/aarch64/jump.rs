//! Functions that jump to the address in a static variable.

/// Defines a hidden function with the C name `$name`. It jumps to the address in `$slot`, an `AtomicPtr`, and changes
/// no register but x16, which the procedure call standard reserves for such code.
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
