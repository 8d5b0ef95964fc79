//! The loops of functions.

use super::loops::{Loop, element_loop, fast_loop};
use gpuvec_expr::Op;
use gpuvec_math::{Scalar, Usual, double};

/// The loop of a function with sequences that only rare arguments need.
macro_rules! seldom {
    ($Op:ident $T:ident, $module:ident, $function:ident($($x:ident)+)) => {
        element_loop!(Long, |$($x: $T),+| -> $T { $module::$function(&Scalar, $($x),+) } usually {
            let machine = Usual::default();
            ($module::$function(&machine, $($x),+), machine.missed())
        })
    };
}

/// The loop of a function of f32 that is fast for nearly all elements.
macro_rules! fast {
    ($Op:ident $T:ident, $module:ident, $function:ident($x:ident)) => {
        fast_loop!($Op of $function, |$x| { $module::$function(&Scalar, $x) } usually {
            let machine = Usual::default();
            ($module::$function(&machine, $x), machine.missed())
        })
    };
}

/// The loops of all functions of a type. `$fast` is the macro for the functions that have a fast sequence for f32.
macro_rules! functions {
    ($of:ident $T:ident $module:ident $fast:ident
     $($op:ident $name:ident $arguments:tt $loops:ident $cost:tt $oracle:ident;)*) => {
        pub(super) fn $of(op: Op) -> Option<Loop> {
            Some(match op {
                $(Op::$op => functions!(@$loops $fast $op $T, $module, $name $arguments),)*
                _ => return None,
            })
        }
    };
    (@fast $fast:ident $($function:tt)+) => {
        $fast!($($function)+)
    };
    (@seldom $fast:ident $($function:tt)+) => {
        seldom!($($function)+)
    };
}

gpuvec_math::functions!(functions! of_f32 f32 gpuvec_math fast);
gpuvec_math::functions!(functions! of_f64 f64 double seldom);
