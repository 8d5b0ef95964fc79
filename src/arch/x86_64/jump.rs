//! Functions that jump to where a static variable points.

/// Defines a hidden function with C's name `$name`, which jumps to the function whose address is in `$slot`, an
/// `AtomicPtr`. No register is changed.
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
