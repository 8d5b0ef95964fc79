//! Functions that jump to the address in a static variable.

/// Defines a hidden function with the C name `$name`. It jumps to the address in `$slot`, an `AtomicPtr`, and changes
/// no register.
macro_rules! jump {
    ($name:ident, $slot:path) => {
        std::arch::global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            "jmp *{slot}(%rip)",
            ".popsection",
            slot = sym $slot,
            options(att_syntax),
        );
    };
}
pub(crate) use jump;
