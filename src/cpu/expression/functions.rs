//! The loops of functions.

use super::loops::{Loop, element_loop, fast_loop};
use gpuvec_expr::Op;
use gpuvec_math::{Scalar, Usual, double, fast};

/// The loops of a function that has rare sequences.
macro_rules! seldom {
    ($T:ident, $module:ident, $function:ident) => {
        element_loop!(Long, |a: $T| -> $T { $module::$function(&Scalar, a) } usually {
            let machine = Usual::default();
            ($module::$function(&machine, a), machine.missed())
        })
    };
    ($T:ident, $module:ident, $function:ident of_two) => {
        element_loop!(Long, |a: $T, b: $T| -> $T { $module::$function(&Scalar, a, b) } usually {
            let machine = Usual::default();
            ($module::$function(&machine, a, b), machine.missed())
        })
    };
}

/// The loops of a function of f32 that is fast for nearly all elements.
macro_rules! fast {
    ($T:ident, $module:ident, $function:ident) => {
        fast_loop!(fast::$function, |a| { $module::$function(&Scalar, a) } usually {
            let machine = Usual::default();
            ($module::$function(&machine, a), machine.missed())
        })
    };
}

/// The loops of all functions of a type, with the macro for those that are fast for f32.
macro_rules! functions {
    ($of:ident $T:ident $module:ident $fast:ident
     $($op:ident $name:ident $arguments:tt $loops:ident $cost:tt $oracle:ident;)*) => {
        pub(super) fn $of(op: Op) -> Option<Loop> {
            Some(match op {
                $(Op::$op => functions!(@$loops $fast $T, $module, $name $arguments),)*
                _ => return None,
            })
        }
    };
    (@fast $fast:ident $T:ident, $module:ident, $name:ident (x)) => {
        $fast!($T, $module, $name)
    };
    (@seldom $fast:ident $T:ident, $module:ident, $name:ident (x y)) => {
        seldom!($T, $module, $name of_two)
    };
}

gpuvec_math::functions!(functions! of_f32 f32 gpuvec_math fast);
gpuvec_math::functions!(functions! of_f64 f64 double seldom);
