//! The kernels of elementwise operations: the bits of the table's formulas for cores.

use crate::run::{Launch, run_text};
use crate::values::{Bits, Random};
use gpuvec_expr::Element;
use gpuvec_ops::{Element as _, Elementwise, Exact, Fold, Op, Step, Visitor};
use gpuvec_ptx::Kernel;

/// The elementwise operations, with the types of their elements.
fn operations() -> impl Iterator<Item = (Op, Element)> {
    let elementwise = Op::ALL.iter().filter(|op| matches!(op.step(), Step::Map(_)));
    elementwise.map(move |&op| (op, op.element()))
}

fn kernel(op: Op) -> Kernel {
    Kernel::new(op.kernel(), &op.program(), "")
}

/// Computes an operation on elements that have these bits.
struct Apply([Bits; 2]);

impl Visitor for Apply {
    type Result = Bits;

    fn elementwise<O: Elementwise>(self, op: O) -> Bits {
        let [a, b] = self.0.map(O::Element::from_bits);
        op.apply(a, b).canonical().bits()
    }

    fn fold<O: Fold>(self, _: O) -> Bits {
        unreachable!("not elementwise")
    }

    fn exact<O: Exact>(self, _: O) -> Bits {
        unreachable!("not elementwise")
    }
}

#[track_caller]
fn check(op: Op, element: Element, values: &[Vec<Bits>], launch: Launch) {
    let (kernel, program) = (kernel(op), op.program());
    let declared: Vec<_> = program.inputs().collect();
    let values = &values[..declared.len()];
    let text = kernel.image().to_str().expect("PTX is ASCII");
    let found = run_text(text, &declared, &[element], false, values, launch);
    let alpha = if op.has_alpha() { values[op.inputs()][0] } else { 0 };
    for (i, result) in found[0].iter().enumerate() {
        let operands = [values[0][i], values[op.inputs() - 1][i]];
        let expected = op.visit(alpha, Apply(operands));
        let of = format!("{op:?}, element {i} of {launch:?}, {operands:#x?}, {alpha:#x}");
        assert!(*result == expected, "{of}: {result:#x}, not {expected:#x}");
    }
}

/// Elements that arrays a, b and the output are past a multiple of 16 bytes.
const PAST: [&[usize]; 10] = [
    &[0],
    &[1],
    &[2],
    &[3],
    &[0, 0, 1],
    &[0, 1, 0],
    &[1, 0, 0],
    &[1, 3, 2],
    &[0, 2, 0],
    &[0, 1, 2],
];

#[test]
fn every_length_and_alignment() {
    let mut random = Random(11);
    for (op, element) in operations() {
        let values: Vec<_> = (0..3).map(|_| random.values(element, 2100)).collect();
        for past in PAST {
            for n in (0..13).chain([1023, 1024, 1027, 2100]) {
                check(op, element, &values, Launch { past, ..Launch::of(n) });
            }
        }
    }
}

#[test]
fn outputs_in_place() {
    let mut random = Random(12);
    for (op, element) in operations() {
        let values: Vec<_> = (0..3).map(|_| random.values(element, 1030)).collect();
        for past in PAST {
            for input in 0..op.inputs() {
                let in_place = Some(input);
                check(op, element, &values, Launch { past, in_place, ..Launch::of(1030) });
            }
        }
    }
}

#[test]
fn special_values_in_every_combination() {
    for (op, element) in operations() {
        let special = crate::values::special(element);
        let pairs = || special.iter().flat_map(|&a| special.iter().map(move |&b| (a, b)));
        let [a, b]: [Vec<Bits>; 2] =
            [pairs().map(|(a, _)| a).collect(), pairs().map(|(_, b)| b).collect()];
        let launch = Launch { blocks: 3, ..Launch::of(a.len()) };
        for &alpha in if op.has_alpha() { &special[..] } else { &special[..1] } {
            let mut values = vec![a.clone(), b.clone()];
            values.truncate(op.inputs());
            values.push(vec![alpha]);
            check(op, element, &values, launch);
        }
    }
}

#[test]
fn packs_have_16_bytes_and_kernels_the_names_of_operations() {
    for (op, element) in operations() {
        let kernel = kernel(op);
        assert_eq!(kernel.pack() * element.bytes(), 16, "{op:?}");
        assert_eq!(kernel.packs_per_thread(), 1, "{op:?}");
        assert_eq!(kernel.name().to_str(), Ok(op.kernel()));
        let text = kernel.image().to_str().expect("PTX is ASCII");
        assert!(text.contains(&format!(".visible .entry {}(", op.kernel())), "{op:?}");
    }
}
