//! The names that may be called: casts, functions, formulas and reductions.

use crate::error::{Result, fault, quoted};
use crate::formulas::{FORMULAS, Formula};
use crate::suggest::{cast_of_integers, function_suggestion};
use crate::{Element, Op, Reduction};

/// A callable.
#[derive(Clone, Copy)]
pub(crate) enum Callee {
    Cast(Element),
    Function(Op),
    Formula(&'static Formula),
    Reduction(Reduction),
}

impl Callee {
    /// Finds the callable of a name. `place` is the place of the name.
    pub(crate) fn named(name: &str, place: usize) -> Result<Self> {
        let cast = casts().find(|element| element.name() == name).map(Callee::Cast);
        let function = || Op::FUNCTIONS.iter().copied().find(|op| op.name() == name);
        let found = cast
            .or_else(|| function().map(Callee::Function))
            .or_else(|| Formula::named(name).map(Callee::Formula))
            .or_else(|| reduction_named(name).map(Callee::Reduction));
        if let Some(callee) = found {
            return Ok(callee);
        }
        if let Some(element) = Element::ALL.iter().find(|element| element.name() == name) {
            let cast = cast_of_integers(*element);
            let message = format!("{name} is only a type of inputs: write {cast} for integers");
            return fault(place, message);
        }
        let near = function_suggestion(name, names());
        fault(place, format!("no function is named {}{near}", quoted(name)))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Callee::Cast(element) => element.name(),
            Callee::Function(op) => op.name(),
            Callee::Formula(formula) => formula.name,
            Callee::Reduction(reduction) => reduction.name(),
        }
    }

    pub(crate) const fn arity(self) -> usize {
        match self {
            Callee::Cast(_) => 1,
            Callee::Function(op) => op.arity(),
            Callee::Formula(formula) => formula.arity,
            Callee::Reduction(reduction) => reduction.arity(),
        }
    }

    pub(crate) fn takes(self) -> String {
        let (name, count) = (self.name(), self.arity());
        format!("{name} takes {count} argument{}", if count == 1 { "" } else { "s" })
    }
}

/// The reduction of a name, which may be NumPy's name for it.
fn reduction_named(name: &str) -> Option<Reduction> {
    let name = match name {
        "amin" => "min",
        "amax" => "max",
        _ => name,
    };
    Reduction::ALL.iter().find(|reduction| reduction.name() == name).copied()
}

/// The types that have a cast.
fn casts() -> impl Iterator<Item = Element> + Clone {
    Element::ALL.iter().copied().filter(|element| element.is_of_results())
}

/// The names of the functions of elements, each with its number of arguments: casts, functions and formulas.
pub fn functions() -> impl Iterator<Item = (&'static str, usize)> + Clone {
    let casts = casts().map(|element| (element.name(), 1));
    let functions = Op::FUNCTIONS.iter().map(|op| (op.name(), op.arity()));
    casts.chain(functions).chain(FORMULAS.iter().map(|formula| (formula.name, formula.arity)))
}

/// The names of all callables.
pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    let reductions = Reduction::ALL.iter().map(|reduction| reduction.name());
    functions().map(|(name, _)| name).chain(["amin", "amax"]).chain(reductions)
}
