//! The table of operations. A row has the properties that both back ends and the parser need. A back end matches on the
//! operation and the types of its operands.

/// The type rule of an operation: the operands that it takes, which are promoted to one type, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Numbers of any type; the result has that type.
    Number,
    /// Numbers of any type. The result for an integer is the integer itself, without a node.
    Rounding,
    /// Numbers; integers become f64.
    Quotient,
    /// Numbers. Integers become f64; integers of 8 and 16 bits become f32.
    Float,
    /// Only floats. NumPy's operation on integers has another spelling.
    FloatOnly,
    /// Values of any type, bools as i32; the result is a bool.
    Comparison,
    /// Bools; the result is a bool.
    Logic,
    /// Bools, or integers; the result has that type.
    Bits,
    /// Integers; the result has that type.
    Integer,
    /// A bool, and two values of one type; the result has that type.
    Select,
    /// A value of any type; the result has the node's type.
    Cast,
}

macro_rules! operations {
    (
        operators { $($o:ident $o_name:literal $symbol:literal $o_arity:literal $o_rule:ident $o_doc:literal;)+ }
        functions { $($f:ident $f_name:literal $f_arity:literal $f_rule:ident $f_doc:literal;)+ }
    ) => {
        /// The operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $(#[doc = $o_doc] $o,)+
            $(#[doc = $f_doc] $f,)+
        }

        impl Op {
            /// Every row, in the table's order.
            pub const ALL: &[Op] = &[$(Op::$o,)+ $(Op::$f,)+];

            /// The operation's name in the program's text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Op::$o => $o_name,)+ $(Op::$f => $f_name,)+ }
            }

            /// The operation's spelling in an expression.
            #[must_use]
            pub const fn spelling(self) -> &'static str {
                match self { $(Op::$o => $symbol,)+ $(Op::$f => $f_name,)+ }
            }

            /// The number of operands: one to three.
            #[must_use]
            pub const fn arity(self) -> usize {
                match self { $(Op::$o => $o_arity,)+ $(Op::$f => $f_arity,)+ }
            }

            /// The type rule.
            #[must_use]
            pub const fn rule(self) -> Rule {
                match self { $(Op::$o => Rule::$o_rule,)+ $(Op::$f => Rule::$f_rule,)+ }
            }

            /// The operations that are written as calls.
            pub const FUNCTIONS: &[Op] = &[$(Op::$f,)+];
        }
    };
}

operations! {
    operators {
        Neg "neg" "-" 1 Number "`-a`; integers wrap.";
        Add "add" "+" 2 Number "`a + b`; integers wrap.";
        Sub "sub" "-" 2 Number "`a - b`; integers wrap.";
        Mul "mul" "*" 2 Number "`a * b`; integers wrap.";
        Div "div" "/" 2 Quotient "`a / b`.";
        FloorDiv "floordiv" "//" 2 Number "`a // b`, toward minus infinity; 0 for the integer divisor 0. For \
            floats q = floor(a / b) or q - 1. It is q - 1 if a / b was rounded up to q: if |q| < 2^24 (f64: 2^53) \
            and fma(-q, b, a), or a itself for an infinite b, is not 0 and does not have b's sign.";
        Mod "mod" "%" 2 Number "`a % b`, with the sign of b; 0 for the integer divisor 0. For floats the exact \
            remainder r of a / b rounded toward zero (C's fmod), or r + b, rounded, if r is not 0 and does not have \
            b's sign. A zero has b's sign.";
        Less "less" "<" 2 Comparison "`a < b`; `b > a` is the same node.";
        LessEqual "less_equal" "<=" 2 Comparison "`a <= b`; `b >= a` is the same node.";
        Equal "equal" "==" 2 Comparison "`a == b`.";
        NotEqual "not_equal" "!=" 2 Comparison "`a != b`.";
        And "and" "&" 2 Bits "`a & b`.";
        Or "or" "|" 2 Bits "`a | b`.";
        Xor "xor" "^" 2 Bits "`a ^ b`.";
        Not "not" "~" 1 Logic "`~a`; for integers it is `a ^ -1`.";
        Shl "shl" "<<" 2 Integer "`a << b`; 0 for a b that is negative or at least the number of bits.";
        Shr "shr" ">>" 2 Integer "`a >> b`, with copies of the sign; 0, or -1 for a negative a, for a b that \
            is negative or at least the number of bits.";
        Cast "cast" "cast" 1 Cast "`f32(a)` and the like. Floats are rounded to nearest; floats become integers \
            toward zero, saturated, and NaN becomes 0; integers wrap; a bool is `a != 0`.";
        RoundOdd "round_odd" "cast" 1 Cast "Rounds an f64 to f32 toward zero, and sets the last bit if the result is \
            not exact. Rounding it to a shorter float gives the f64 rounded once.";
        RoundF16 "round_f16" "f16" 1 Cast "The nearest f16 to an f32, as an f32.";
        RoundBf16 "round_bf16" "bf16" 1 Cast "The nearest bf16 to an f32, as an f32.";
    }
    functions {
        Where "where" 3 Select "`where(condition, a, b)`: a where the condition holds, else b.";
        Fma "fma" 3 Float "`a * b + c`, rounded once.";
        Sqrt "sqrt" 1 Float "The square root.";
        Cbrt "cbrt" 1 Float "The cube root.";
        Abs "abs" 1 Number "The magnitude. The least integer stays negative.";
        Sign "sign" 1 Number "-1, 0 or 1; +0 for zeros, NaN for NaN.";
        Minimum "minimum" 2 Number "IEEE 754-2019's minimum: NaN wins, and -0 < +0.";
        Maximum "maximum" 2 Number "IEEE 754-2019's maximum: NaN wins, and -0 < +0.";
        Floor "floor" 1 Rounding "The nearest integer that is not larger.";
        Ceil "ceil" 1 Rounding "The nearest integer that is not smaller.";
        Trunc "trunc" 1 Rounding "The nearest integer toward zero.";
        Rint "rint" 1 Float "The nearest integer, ties to even.";
        Copysign "copysign" 2 Float "The magnitude of a with the sign of b; NaN counts as positive.";
        Exp "exp" 1 Float "e to the power a.";
        Exp2 "exp2" 1 Float "2 to the power a.";
        Expm1 "expm1" 1 Float "`exp(a) - 1`, without cancellation.";
        Log "log" 1 Float "The natural logarithm.";
        Log2 "log2" 1 Float "The logarithm to base 2.";
        Log10 "log10" 1 Float "The logarithm to base 10.";
        Log1p "log1p" 1 Float "`log(1 + a)`, without cancellation.";
        Sin "sin" 1 Float "The sine.";
        Cos "cos" 1 Float "The cosine.";
        Tan "tan" 1 Float "The tangent.";
        Asin "asin" 1 Float "The inverse sine.";
        Acos "acos" 1 Float "The inverse cosine.";
        Atan "atan" 1 Float "The inverse tangent.";
        Atan2 "atan2" 2 Float "The angle of the point (b, a).";
        Sinh "sinh" 1 Float "The hyperbolic sine.";
        Cosh "cosh" 1 Float "The hyperbolic cosine.";
        Tanh "tanh" 1 Float "The hyperbolic tangent.";
        Asinh "asinh" 1 Float "The inverse hyperbolic sine.";
        Acosh "acosh" 1 Float "The inverse hyperbolic cosine.";
        Atanh "atanh" 1 Float "The inverse hyperbolic tangent.";
        Erf "erf" 1 Float "The error function.";
        Hypot "hypot" 2 Float "`sqrt(a*a + b*b)`, without overflow.";
        Pow "pow" 2 FloatOnly "a to the power b.";
    }
}

macro_rules! reductions {
    ($($reduction:ident $name:literal $arity:literal $doc:literal;)+) => {
        /// The reductions. Each computes one value from all elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reduction {
            $(#[doc = $doc] $reduction,)+
        }

        impl Reduction {
            /// Every row, in the table's order.
            pub const ALL: &[Reduction] = &[$(Reduction::$reduction,)+];

            /// The reduction's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Reduction::$reduction => $name,)+ }
            }

            /// The number of operands: one or two.
            #[must_use]
            pub const fn arity(self) -> usize {
                match self { $(Reduction::$reduction => $arity,)+ }
            }
        }
    };
}

reductions! {
    Sum "sum" 1 "The sum: exact and rounded once for floats, an i64 that wraps for integers. The sum of \
        bools is their `Count`.";
    Mean "mean" 1 "The exact sum divided by the number of elements, rounded once; NaN for no elements. The mean of integers and \
        bools is an f64.";
    Dot "dot" 2 "The sum of `a * b`: exact and rounded once for floats, an i64 that wraps for integers.";
    Prod "prod" 1 "The product of integers, an i64 that wraps.";
    Norm "norm" 1 "The square root of the exact sum of squares, rounded once. The norm of integers is an f64.";
    Var "var" 1 "The variance of n elements: the sum of the squares of their differences from the mean, divided by \
        n - ddof. It is exact and rounded once. It is NaN for no elements. If n - ddof is not positive, it is NaN for \
        equal elements, and infinite for others. The variance of integers and bools is an f64.";
    Std "std" 1 "The standard deviation: the square root of the exact variance, rounded once.";
    Min "min" 1 "The smallest element; NaN wins, and -0 < +0.";
    Max "max" 1 "The largest element; NaN wins, and -0 < +0.";
    ArgMin "argmin" 1 "The index of the first smallest element, as an i64; NaN wins, and -0 equals +0.";
    ArgMax "argmax" 1 "The index of the first largest element, as an i64; NaN wins, and -0 equals +0.";
    Any "any" 1 "True if any bool is true.";
    All "all" 1 "True if every bool is true.";
    Count "count" 1 "The number of bools that are true, as an i64.";
}
