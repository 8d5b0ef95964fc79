//! The interpreter against the oracle, which runs one element at a time: every instruction set, every bit.

use super::*;
use crate::arch::Isa;
use crate::call::{Binding, Formula};
use gpuvec_expr::{Element, Form, Input, Op, Output, Program, Rule, compile};
use gpuvec_ops::Accumulator;
use gpuvec_oracle::outputs;
use gpuvec_oracle::random::{Generator, INPUTS};
use proptest::prelude::*;
use std::ffi::c_void;

/// The number of bytes around every array, which nothing may change.
const GUARD: usize = 128;

/// The value of these bytes: floats of them are NaNs, not of the one encoding.
const GUARDS: u8 = 0xFF;

/// Elements between guards, at an offset in elements from an aligned address.
struct Array {
    storage: Vec<u64>,
    start: usize,
    bytes: usize,
}

impl Array {
    fn new(values: &[u64], size: usize, offset: usize) -> Self {
        let start = GUARD + offset * size;
        let bytes = values.len() * size;
        let storage =
            vec![u64::from_ne_bytes([GUARDS; 8]); (start + bytes + GUARD).div_ceil(8) + 8];
        let mut array = Array { storage, start, bytes };
        for (element, value) in array.bytes_mut().chunks_mut(size.max(1)).zip(values) {
            element.copy_from_slice(&value.to_ne_bytes()[..size]);
        }
        array
    }

    /// The first byte is at an address aligned to 64 bytes, plus the offset.
    fn pointer(&self) -> *const u8 {
        let address = self.storage.as_ptr().cast::<u8>();
        address.wrapping_add(address.align_offset(64) + self.start)
    }

    fn all(&mut self) -> &mut [u8] {
        let start = self.storage.as_ptr().cast::<u8>().align_offset(64);
        let (_, all, _) = {
            // SAFETY: any bytes are bytes.
            unsafe { self.storage.align_to_mut::<u8>() }
        };
        &mut all[start..][..self.start + self.bytes + GUARD]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.start, self.bytes);
        &mut self.all()[start..][..bytes]
    }

    /// The values, if the guards are as they were.
    fn values(&mut self, size: usize) -> Vec<u64> {
        let (start, bytes) = (self.start, self.bytes);
        let all = self.all();
        assert!(all[..start].iter().chain(&all[start + bytes..]).all(|&byte| byte == GUARDS));
        let word = |element: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(element);
            u64::from_ne_bytes(word)
        };
        self.bytes_mut().chunks(size).map(word).collect()
    }
}

/// A call: a program, and the values of its inputs; of a scalar, the first counts.
struct Case<'a> {
    program: &'a Program,
    columns: Vec<Vec<u64>>,
    /// The inputs that have one element for the whole call, if they are arrays.
    uniform: &'a [usize],
    n: usize,
    offset: usize,
}

impl Case<'_> {
    fn arrays(&self) -> Vec<Array> {
        let inputs = self.program.inputs().zip(&self.columns).enumerate();
        let array = |(i, (input, column)): (usize, (Input<'_>, &Vec<u64>))| {
            let of_grain = [column.first().copied().unwrap_or(0); GRAIN];
            let values = if self.uniform.contains(&i) { &of_grain } else { &column[..self.n] };
            Array::new(values, input.element.bytes(), self.offset * (i + 1) % 7)
        };
        inputs.map(array).collect()
    }

    /// The arrays among those that are bound, a bit each, that have one element.
    fn uniform_arrays(&self) -> u64 {
        let arrays = self.program.inputs().enumerate();
        let arrays = arrays.filter(|(_, input)| input.form == Form::Array);
        let bit =
            |(array, (i, _)): (usize, (usize, _))| u64::from(self.uniform.contains(&i)) << array;
        arrays.enumerate().map(bit).sum()
    }

    fn bindings(&self) -> Vec<Binding> {
        let binding = |(input, column): (Input<'_>, &Vec<u64>)| match input.form {
            Form::Array => Binding::Array,
            Form::Scalar | Form::Number => Binding::Scalar(column[0]),
        };
        self.program.inputs().zip(&self.columns).map(binding).collect()
    }

    /// The addresses of the arrays from an element on.
    fn addresses(&self, arrays: &[Array], start: usize) -> Vec<*const c_void> {
        let inputs = self.program.inputs().zip(arrays).enumerate();
        let bound = inputs.filter(|(_, (input, _))| input.form == Form::Array);
        let address = |(i, (input, array)): (usize, (Input<'_>, &Array))| {
            let start = if self.uniform.contains(&i) { 0 } else { start };
            array.pointer().wrapping_add(start * input.element.bytes()).cast()
        };
        bound.map(address).collect()
    }

    /// The oracle's bits of each output.
    fn expected(&self) -> Vec<Vec<u64>> {
        let element = |i: usize| -> Vec<u64> {
            let inputs = self.program.inputs().zip(&self.columns);
            inputs
                .enumerate()
                .map(|(number, (input, column))| {
                    let is_one = input.form != Form::Array || self.uniform.contains(&number);
                    column[if is_one { 0 } else { i }]
                })
                .collect()
        };
        outputs(self.program, &(0..self.n).map(element).collect::<Vec<_>>())
    }

    /// The outputs that are stored, not reduced.
    fn stored(&self) -> Vec<Output> {
        let outputs = self.program.outputs().iter();
        outputs.filter(|output| output.reduction().is_none()).copied().collect()
    }

    /// The parts in which a call is done: all at once, or in two.
    fn parts(&self) -> [Vec<(usize, usize)>; 2] {
        let first = self.n / 3;
        [vec![(0, self.n)], vec![(0, first), (first, self.n - first)]]
    }

    /// Checks every instruction set, also in parts, and in place of an input.
    fn check(&self) {
        let expected = self.expected();
        for isa in Isa::all() {
            for places in self.places() {
                for parts in self.parts() {
                    let found = self.found(isa, &parts, &places);
                    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                        assert!(
                            found == expected,
                            "{isa:?}, in place of {places:?}, output {number}: {}\n{}",
                            self.difference(found, expected),
                            self.program
                        );
                    }
                }
            }
        }
    }

    /// The first difference between the bits of an output.
    fn difference(&self, found: &[u64], expected: &[u64]) -> String {
        let differs = |i: &usize| found.get(*i) != expected.get(*i);
        let Some(i) = (0..found.len().max(expected.len())).find(differs) else {
            return "none".into();
        };
        let of: Vec<_> = self.columns.iter().filter_map(|column| column.get(i)).collect();
        format!("{i}: {:x?}, not {:x?}, of {of:x?}", found.get(i), expected.get(i))
    }

    /// The inputs that the stored outputs are: none; each, for the first output; of several outputs, all in turn.
    fn places(&self) -> Vec<Vec<Option<usize>>> {
        let outputs = self.stored();
        let sizes: Vec<usize> = outputs.iter().map(|output| output.element.bytes()).collect();
        let is_like = |input: &Input<'_>, size: usize| {
            input.form == Form::Array && input.element.bytes() == size
        };
        let inputs: Vec<Input<'_>> = self.program.inputs().collect();
        let mut all = vec![vec![None; outputs.len()]];
        let Some((&size, others)) = sizes.split_first() else { return all };
        let is_whole = |i: &usize| !self.uniform.contains(i);
        for first in (0..inputs.len()).filter(|i| is_whole(i) && is_like(&inputs[*i], size)) {
            let mut places = vec![Some(first)];
            for size in others {
                let is_free = |i: &usize| {
                    is_whole(i) && is_like(&inputs[*i], *size) && !places.contains(&Some(*i))
                };
                places.push((0..inputs.len()).find(is_free));
            }
            all.push(places);
        }
        all
    }

    /// The bits of each output; of a reduction none where it has no value. A stored one is an input if there is
    /// one in its place.
    fn found(&self, isa: Isa, parts: &[(usize, usize)], places: &[Option<usize>]) -> Vec<Vec<u64>> {
        let (sums, _) = self.program.of_sums().unwrap();
        let program = BlockProgram::new(&sums, isa).unwrap();
        let mut scratch = program.scratch(self.n).expect("memory");
        let mut arrays = self.arrays();
        let stored = self.stored();
        let sizes = stored.iter().map(|output| output.element.bytes());
        let zeros = vec![0; self.n];
        let mut outs: Vec<Array> =
            sizes.clone().map(|size| Array::new(&zeros, size, self.offset)).collect();
        let mut states = self.states();
        // The last part first, and each in states of its own.
        for &(start, len) in parts.iter().rev() {
            let target = |(size, (place, out)): (usize, (&Option<usize>, &Array))| {
                let target = place.map_or(out, |input| &arrays[input]).pointer();
                target.wrapping_add(start * size).cast_mut().cast::<c_void>()
            };
            let targets: Vec<_> = sizes.clone().zip(places.iter().zip(&outs)).map(target).collect();
            let (bindings, arrays) = (&self.bindings(), &self.addresses(&arrays, start));
            // SAFETY: the arrays have `n` elements each, or GRAIN, and each of the first may be one output.
            let range = unsafe { Range::new(bindings, arrays, &targets, len) };
            let range = range.with_uniform(self.uniform_arrays());
            let mut of_part = self.states();
            match of_part.outputs() {
                0 => program.map(&mut scratch, range),
                _ => program.accumulate(
                    &mut scratch,
                    range,
                    start,
                    &mut |number, isa, values, first| {
                        of_part.sum_mut(number).add(0, isa, values, first);
                    },
                ),
            }
            states.merge(0, &of_part, 1);
        }
        let values = |(size, (place, out)): (usize, (&Option<usize>, &mut Array))| match place {
            Some(input) => arrays[*input].values(size),
            None => out.values(size),
        };
        let mut values = sizes.zip(places.iter().zip(&mut outs)).map(values);
        let mut results = 0..states.outputs();
        let of_output = |output: &Output| match output.reduction() {
            None => values.next().expect("an array"),
            Some(reduction) => {
                let result = results.next().expect("a state");
                let has_result = self.n > 0 || visit(reduction, output.ty, HasEmptyResult);
                Vec::from_iter(has_result.then(|| states.result(result, 0)))
            }
        };
        self.program.outputs().iter().map(of_output).collect()
    }

    /// A state of no elements for each reduced output.
    fn states(&self) -> OutputStates {
        OutputStates::of(self.program.outputs().iter()).identities(1).expect("memory")
    }
}

/// True of a reduction that has a result for no elements.
struct HasEmptyResult;

impl ReductionVisitor for HasEmptyResult {
    type Result = bool;

    fn visit<R: BlockReduction>(self) -> bool {
        R::Accumulator::HAS_EMPTY_RESULT
    }
}

/// Zeros, the least and the greatest subnormal, the least normal, ones, the largest, infinities, NaNs.
const F16: [u16; 13] =
    [0, 0x8000, 1, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0xFE12];
/// The same of bf16.
const BF16: [u16; 13] =
    [0, 0x8000, 1, 0x807F, 0x0080, 0x3F80, 0xBF80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7F81, 0xFFD2];

/// Values at which operations behave differently.
fn special(element: Element) -> Vec<u64> {
    let f64s = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        3.0,
        7.0,
        0.1,
        10.0,
        1e-5,
        100.25,
        1e10,
        1e15,
        3e18,
        1e19,
        1e30,
        2147483647.0,
        2147483648.0,
        4294967296.0,
        9223372036854775808.0,
        4503599627370497.5,
        8388609.0,
        8388608.5,
        16777217.0,
        88.7,
        710.0,
        1e-40,
        1e-310,
        1e300,
        1.4e-45,
        5e-324,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::from(f32::MAX),
        f64::from(f32::MIN_POSITIVE),
        f64::INFINITY,
    ];
    let both = f64s.into_iter().chain(f64s.map(|x: f64| -x));
    match element {
        Element::F32 => {
            let nans = [0x7FC0_0000, 0xFFC0_0000, 0x7F80_0001, 0xFFC0_1234];
            both.map(|x| u64::from((x as f32).to_bits())).chain(nans).collect()
        }
        Element::F64 => {
            let nans = [0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, (0xFFF8 << 48) + 0x1234];
            both.map(f64::to_bits).chain(nans).collect()
        }
        Element::F16 => (0..=u16::MAX).step_by(613).chain(F16).map(u64::from).collect(),
        Element::Bf16 => (0..=u16::MAX).step_by(613).chain(BF16).map(u64::from).collect(),
        // 2 is true, too.
        Element::Bool => vec![0, 1, 2],
        _ => {
            let small = [0, 1, 2, 3, 7, 100, 127, 128, 255, 32767, 32768, 65535];
            let large =
                [0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 62, i64::MAX, i64::MIN, 1 << 53];
            small
                .into_iter()
                .chain(large)
                .flat_map(|x| [x as u64, (x as u64).wrapping_neg()])
                .collect()
        }
    }
}

/// Every combination of some values, up to a number of them.
fn combinations(values: &[Vec<u64>]) -> Vec<Vec<u64>> {
    const MOST: usize = 10_000;
    let all: usize = values.iter().map(Vec::len).product();
    // A step without a factor in common with the number of all leaves none out that is near.
    let step = if all <= MOST { 1 } else { (all / MOST) | 1 };
    let number = |mut place: usize, column: usize| {
        for values in &values[..column] {
            place /= values.len();
        }
        values[column][place % values[column].len()]
    };
    let rows = || (0..all).step_by(step);
    (0..values.len()).map(|column| rows().map(|row| number(row, column)).collect()).collect()
}

/// The inputs x, y, ... of an element type.
fn inputs(elements: &[Element]) -> Vec<Input<'static>> {
    let names = ["x", "y", "z"].into_iter().zip(elements);
    names.map(|(name, &element)| Input { name, element, form: Form::Array }).collect()
}

fn check_special(text: &str, elements: &[Element]) -> bool {
    let inputs = inputs(elements);
    let Ok(program) = compile(text, &inputs) else { return false };
    let columns = combinations(&elements.iter().map(|&e| special(e)).collect::<Vec<_>>());
    let n = columns[0].len();
    Case { program: &program, columns, uniform: &[], n, offset: 1 }.check();
    true
}

#[test]
fn every_operation_of_every_type_on_special_values() {
    for &op in Op::ALL {
        let text = match (op, op.arity()) {
            _ if op.rule() == Rule::Cast => continue,
            (Op::Where, _) => "where(z, x, y)".into(),
            (_, arity) if Op::FUNCTIONS.contains(&op) => {
                format!("{}({})", op.name(), ["x", "x, y", "x, y, z"][arity - 1])
            }
            (_, 1) => format!("{}x", op.spelling()),
            _ => format!("x {} y", op.spelling()),
        };
        let mut types = 0;
        for &element in Element::ALL {
            let mut elements = vec![element; op.arity()];
            if op == Op::Where {
                elements[2] = Element::Bool;
            }
            types += usize::from(check_special(&text, &elements));
        }
        assert!(types > 0, "{text}");
    }
}

#[test]
fn every_cast_of_special_values() {
    for &element in Element::ALL {
        for to in Element::ALL.iter().filter(|to| to.is_of_results()) {
            assert!(check_special(&format!("{}(x)", to.name()), &[element]));
            check_special(&format!("{}(x) * 3", to.name()), &[element]);
        }
    }
}

/// Cheap values that depend on their place: small numbers of any sign, with a NaN here and there.
fn column(element: Element, n: usize, seed: u64, has_nans: bool) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let value = |bits: u64| match element {
        Element::Bool => bits >> 40 & 1,
        Element::F32 if has_nans && bits.is_multiple_of(61) => 0xFFC0_0001,
        Element::F64 if has_nans && bits.is_multiple_of(61) => 0xFFF8 << 48,
        Element::F16 if has_nans && bits.is_multiple_of(61) => 0xFE12,
        Element::Bf16 if has_nans && bits.is_multiple_of(61) => 0xFFD2,
        // Of any size and sign, but finite.
        Element::F16 => bits & 0xBFFF,
        Element::Bf16 => bits & 0x83FF | 0x3C00,
        Element::F32 => u64::from(((bits as i16) as f32 / 256.0).to_bits()),
        Element::F64 => ((bits as i32) as f64 / 65536.0).to_bits(),
        Element::U64 => bits,
        _ => (bits as i16) as u64,
    };
    (0..n).map(|_| value(next())).collect()
}

fn check_sized(text: &str, n: usize, offset: usize, has_nans: bool) {
    let program = compile(text, &INPUTS).unwrap_or_else(|error| panic!("{error}"));
    let columns = INPUTS
        .iter()
        .enumerate()
        .map(|(i, input)| column(input.element, n.max(1), (i + n) as u64, has_nans))
        .collect();
    let mut case = Case { program: &program, columns, uniform: &[], n, offset };
    case.check();
    if case.stored().len() == program.outputs().len() {
        case.uniform = &[0, 2];
        case.check();
    }
}

/// Around grains and blocks.
const SIZES: [usize; 16] =
    [0, 1, 2, 31, 32, 33, 64, 65, 511, 512, 513, 1000, 1023, 1024, 1025, 5000];

#[test]
fn every_size_and_alignment() {
    for text in [
        "a + b",
        "a",
        "m",
        "s",
        "x_u8",
        "x_i64 * 3 - x_u32",
        "where(m & (a < b), x_u8, x_i16) + x_i32",
        "a * s + (s * 2 + 1) - c / d",
        "x_f64 * a + sqrt(abs(x_f64)) - 0.5",
        "(a + b) * (a - b) + (c + d) * (c - d) + a * b * c * d",
        "x_i32 < x_u8",
        "x_f16",
        "x_bf16 * x_f16 + a",
        "x_f16 * 0.1 - x_f16 // 3",
        "sqrt(abs(x_bf16)); x_f16; f16(a); x_u16 + 1",
        "f16(x_f64); bf16(x_f64)",
        "x_u64 // 7 + x_u64 % 10 * 3",
        "x_f16; max(x_f16); bf16(x_f16); min(x_u64)",
        "dot(x_f16, x_bf16)",
        "max(x_bf16 * a)",
        "exp(a / 8) + log(abs(b) + 1)",
        "sum(a * b + c)",
        "sum(a)",
        "dot(a, b)",
        "dot(x_f64, s)",
        "norm(a - b)",
        "mean(x_f64)",
        "mean(x_u8 * 2)",
        "sum(x_i32 * x_i64)",
        "sum(x_u8)",
        "dot(x_i32, x_i16)",
        "count(a < b)",
        "sum(s)",
        "a + s*b; b - s*c; a*a",
        "b; a",
        "b; a; sum(a); sum(b)",
        "x_u8 + 1; x_i64; m; sum(x_u8)",
        "max(a); a * 2; argmin(b * a); any(a < b); s",
        "mean(a); norm(a); dot(a, b); min(x_f64); count(m); all(m); sum(x_i32); argmax(x_i16)",
    ] {
        for n in SIZES {
            check_sized(text, n, n % 5, false);
            check_sized(text, n, 1 + n % 3, true);
        }
    }
}

#[test]
fn every_reduction_of_every_type() {
    for name in ["sum", "mean", "norm", "min", "max", "argmin", "argmax"] {
        for x in [
            "a",
            "x_f64",
            "x_i32",
            "x_i64",
            "x_u8",
            "x_u64",
            "x_f16",
            "x_bf16",
            "x_f16 * x_f16",
            "a * b - 1",
            "abs(x_f64) // 16",
        ] {
            for n in [0, 1, 33, 2048, 4100] {
                check_sized(&format!("{name}({x})"), n, n % 4, false);
                check_sized(&format!("{name}({x})"), n, n % 4, true);
            }
        }
    }
    for text in ["any(m)", "all(m)", "count(m)", "any(a < -500)", "all(a < 200)", "all(a == a)"] {
        for n in [0, 1, 33, 2048, 40_000] {
            check_sized(text, n, n % 4, false);
            check_sized(text, n, n % 4, true);
        }
    }
}

#[test]
fn first_of_equal_values_wins() {
    let inputs = inputs(&[Element::F32]);
    for (text, values) in [
        ("argmin(x)", [3.0, 0.0, -0.0, 0.0]),
        ("argmax(x)", [-3.0, -0.0, 0.0, -0.0]),
        ("argmax(x)", [f32::NEG_INFINITY; 4]),
        ("argmin(x)", [f32::INFINITY; 4]),
        ("argmin(x)", [1.0, f32::NAN, 0.0, -f32::NAN]),
        ("min(x)", [3.0, 0.0, -0.0, 0.0]),
        ("max(x)", [-3.0, -0.0, 0.0, -0.0]),
    ] {
        let program = compile(text, &inputs).expect("a reduction");
        for repeated in [1, 700] {
            let columns =
                vec![values.iter().flat_map(|x| vec![u64::from(x.to_bits()); repeated]).collect()];
            Case { program: &program, columns, uniform: &[], n: 4 * repeated, offset: 0 }.check();
        }
    }
}

#[test]
fn many_values_that_live_long_make_short_blocks() {
    let terms: Vec<String> = (1..300).map(|i| format!("(x_f64 + {i}) * (a - {i})")).collect();
    // All terms are needed again, in the other order.
    let back: Vec<String> = terms.iter().rev().cloned().collect();
    let text = format!("({}) - ({})", terms.join(" + "), back.join(" * 0.5 + "));
    let program = compile(&text, &INPUTS).expect("a program");
    let compiled = BlockProgram::new(&program, Isa::all().next().unwrap()).unwrap();
    assert!(compiled.block < 512);
    check_sized(&text, 1500, 1, true);
}

#[test]
fn an_operation_costs_what_its_program_costs() {
    for &op in gpuvec_ops::Op::ALL {
        let blocks = BlockProgram::new(&op.program(), Isa::all().next().unwrap()).unwrap();
        assert_eq!(Formula::of(op).cost, blocks.cost() as usize, "{op:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs(
        choices in prop::collection::vec(any::<u8>(), 10..200),
        reduction in prop::sample::select(vec!["", "", "", "sum", "mean", "norm", "min", "argmax"]),
        n in 0..200usize, offset in 0..5usize, has_nans: bool,
    ) {
        let text = format!("{reduction}({})", Generator::new(&choices).number(5).fewest);
        if compile(&text, &INPUTS).is_ok() {
            check_sized(&text, n, offset, has_nans);
        }
    }

    #[test]
    fn random_formulas(
        choices in prop::collection::vec(any::<u8>(), 10..200), n in 0..200usize, offset in 0..5usize,
        has_nans: bool,
    ) {
        let text = Generator::new(&choices).formulas(3);
        if compile(&text, &INPUTS).is_ok() {
            check_sized(&text, n, offset, has_nans);
        }
    }
}
