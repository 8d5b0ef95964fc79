//! The classes of values that operations and reductions take, and the errors for other classes.

use crate::builder::{Value, common};
use crate::types::Class;
use crate::{Element, Op, Reduction, Rule, Type};

impl Op {
    /// True if the operation depends on the order of its operands' values.
    pub(crate) const fn is_of_order(self) -> bool {
        matches!(self, Op::Less | Op::LessEqual | Op::Minimum | Op::Maximum)
    }
}

impl Rule {
    /// The class to which operands of a common class are converted. `None` if they are refused.
    pub(crate) fn operand(self, common: Class) -> Option<Class> {
        match (self, common) {
            (Rule::Comparison, Class::BOOL) => Some(Class::of(Type::I32)),
            (Rule::Logic | Rule::Bits, Class::BOOL) | (Rule::Select | Rule::Comparison, _) => {
                Some(common)
            }
            (Rule::Logic | Rule::Cast, _) | (_, Class::BOOL) => None,
            (Rule::Bits | Rule::Integer, class) => {
                Some(class).filter(|class| class.value_type().is_integer())
            }
            (Rule::FloatOnly, class) if class.value_type().is_integer() => None,
            (Rule::Number | Rule::Rounding | Rule::FloatOnly, class) => Some(class),
            (Rule::Quotient, class) => Some(class.quotient()),
            (Rule::Float, class) => Some(class.float()),
        }
    }
}

impl Reduction {
    /// The reduction that programs contain, the type of its operands, and the type of its output in memory. `None` if
    /// values of this class are refused. Integers of u64 are reduced as integers of i64 with the same bits or in the
    /// same order.
    pub(crate) fn types(self, class: Class) -> Option<(Reduction, Type, Element)> {
        use Reduction::{
            All, Any, ArgMax, ArgMin, Count, Dot, Max, Mean, Min, Norm, Prod, Std, Sum, Var,
        };
        let ty = class.value_type();
        let float = if ty == Type::F32 { ty } else { Type::F64 };
        let (reduced, sum) = match ty {
            Type::U64 => (Type::I64, Element::U64),
            _ if ty.is_integer() => (ty, Element::I64),
            _ => (ty, ty.element()),
        };
        match (self, ty) {
            (Any | All, Type::Bool) => Some((self, ty, Element::Bool)),
            (Count | Sum, Type::Bool) => Some((Count, ty, Element::I64)),
            (Mean | Var | Std, _) => Some((self, float, float.element())),
            (_, Type::Bool) | (Any | All | Count, _) => None,
            (Sum | Dot, _) => Some((self, reduced, sum)),
            (Prod, _) => ty.is_integer().then_some((self, reduced, sum)),
            (Norm, _) => Some((self, float, float.element())),
            (Min | Max, _) => Some((self, reduced, class.element())),
            (ArgMin | ArgMax, _) => Some((self, reduced, Element::I64)),
        }
    }

    /// True if the reduction depends on the order of values.
    pub(crate) const fn is_of_order(self) -> bool {
        use Reduction::{ArgMax, ArgMin, Max, Min};
        matches!(self, Min | Max | ArgMin | ArgMax)
    }

    /// True if the reduction computes a float from integers that may not be exact in f64.
    pub(crate) const fn has_halves(self, class: Class) -> bool {
        use Reduction::{Mean, Norm, Std, Var};
        let is_wide = matches!(class, Class::Of(Element::I64 | Element::U64) | Class::WeakInt);
        is_wide && matches!(self, Mean | Norm | Var | Std)
    }
}

/// The error for values that an operation does not take, with advice on what to write.
pub(crate) fn refused(op: Op, values: &[Value]) -> String {
    let (name, element) = (op.spelling(), common(values).element());
    let ty = element.name();
    let are_integers = values.iter().all(|value| value.class().value_type().is_integer());
    match op.rule() {
        Rule::Bits | Rule::Integer if are_integers => format!(
            "'{name}' does not take a u64 and an integer that may be negative: write u64(x) or i64(x) for one of them"
        ),
        Rule::Logic => format!("'~' takes bools and integers, not {ty}: write x == 0"),
        Rule::Bits => format!(
            "'{name}' takes bools and integers, not {ty}: put comparisons in parentheses, \
             as in (a < b) {name} (c < d)"
        ),
        Rule::Integer if element != Element::Bool => {
            let factor = if op == Op::Shl { "*" } else { "/" };
            format!("'{name}' takes integers, not {ty}: write x {factor} 2**n for a literal n")
        }
        Rule::FloatOnly if element.widened().is_integer() => {
            format!(
                "{name} takes floats, not {ty}: write x**n for a literal n, or {name}(f64(x), y) in f64"
            )
        }
        _ if Op::FUNCTIONS.contains(&op) => numbers_wanted(name),
        _ => numbers_wanted(&format!("'{name}'")),
    }
}

/// The error for bools, with advice on what to write.
pub(crate) fn numbers_wanted(name: &str) -> String {
    format!(
        "{name} takes numbers, not bools: write i32(x) or f32(x) for numbers, & and | for logic"
    )
}

/// The error for values of a type that a reduction does not take, with advice on what to write.
pub(crate) fn refused_reduction(reduction: Reduction, element: Element) -> String {
    let (name, ty) = (reduction.name(), element.name());
    match (reduction, element.widened()) {
        (Reduction::Min, Type::Bool) => "min takes numbers, not bools: write all(x)".into(),
        (Reduction::Max, Type::Bool) => "max takes numbers, not bools: write any(x)".into(),
        (Reduction::Dot, Type::Bool) => {
            "dot takes numbers, not bools: write any(x & y), or count(x & y) for the number".into()
        }
        (Reduction::Prod, Type::Bool) => "prod takes integers, not bools: write all(x)".into(),
        (Reduction::Prod, _) => format!(
            "prod takes integers, not {ty}, whose product would depend on the order: write exp(sum(log(x))) for \
             positive x"
        ),
        (_, Type::Bool) => format!("{name} takes numbers, not bools: write {name}(i32(x))"),
        _ => format!("{name} takes bools, not {ty}: write {name}(x != 0)"),
    }
}
