//! Reductions by key, on random arrays, against the oracle for each group.

use crate::axes::{ROOM, indexes, offset, shape_parameters, strides};
use crate::run::{BY_KEY_TEMPLATES, LIMITS};
use crate::values::{Bits, Random};
use gpuvec_emulator::HostMemory;
use gpuvec_exact::{Dot, Kind, State, Sum, mean, root};
use gpuvec_expr::{Element, Form, Input, Program, Reduction, Type, compile_by};
use gpuvec_oracle::{Value, results};
use gpuvec_ptx::{AxisReduction, Kernel, NAME, template};

/// The words of a table before its columns.
const HEADER: usize = 2;
const TABLE: u64 = 1 << 48;

/// Compiles a reduction by the key k of arrays x, y, z and a scalar s, all of a type.
#[track_caller]
fn program_of(text: &str, element: Element, key: Element) -> Program {
    let array = |name, element| Input { name, element, form: Form::Array };
    let scalar = Input { name: "s", element, form: Form::Scalar };
    let [x, y, z] = ["x", "y", "z"].map(|name| array(name, element));
    compile_by(text, "k", &[x, y, z, scalar, array("k", key)])
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The window's bits, the exponents of a first window's base and of the last window's top, for kernels of exact sums.
fn windows_of(template: &str, ty: Type) -> Option<(i32, i32, i32)> {
    match (template, ty) {
        ("by_key_sum_f32", _) => Some((36, -149, 128)),
        // Products of f32 as f64, whose lowest bits are zeros.
        ("by_key_sum_f64", Type::F32) => Some((96, -350, 256)),
        ("by_key_sum_f64", _) => Some((96, -1074, 1024)),
        ("by_key_dot_f64", _) => Some((160, -2148, 2048)),
        _ => None,
    }
}

/// The elements of a call: those of each result in the order of the kernel, as bits of all inputs.
struct Elements {
    results: usize,
    n: usize,
    groups: usize,
    /// The elements of each result.
    values: Vec<Vec<Vec<Bits>>>,
    /// The kernel's parameters before its own.
    parameters: Vec<u64>,
    /// The memory of each array, with its address.
    arrays: Vec<(u64, Vec<u8>)>,
    axes: Option<AxisReduction>,
}

/// The contents of tables after the launches, for each state.
#[derive(Default)]
struct Found {
    outside: u64,
    /// The sums of windows: the exponent of the window's lowest bit, and the words of each state, the lowest first.
    windows: Vec<(i32, Vec<Vec<u64>>)>,
    /// The words of the last column.
    last: Vec<u64>,
}

/// Launches a kernel with random parameters until no window is left.
fn found(random: &mut Random, program: &Program, text: &str, elements: &Elements) -> Found {
    let emulated =
        gpuvec_emulator::Kernel::parse(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let states = elements.results * elements.groups;
    let sums = windows_of(template(program).unwrap(), program.outputs()[0].ty);
    let copies = [0, 1, 4, 32][random.below(4)];
    let counts = u64::from(program.outputs()[0].reduction() == Some(Reduction::Mean));
    let mut found = Found::default();
    // The windows that tables have had, and those with bits of terms.
    let (mut done, mut left) = (0_u64, 0_u64);
    let (width, least, top) = sums.unwrap_or((1, 0, 1));
    let base = least - random.below(width as usize) as i32;
    let all = (top - base + width - 1) / width;
    loop {
        let from = match left {
            0 => random.below(all as usize) as u64,
            _ => u64::from(left.trailing_zeros()),
        };
        // No window twice.
        let most = (1..4).take_while(|more| done >> (from + more - 1) & 1 == 0).last();
        let count = 1 + random.below(most.unwrap_or(1) as usize) as u64;
        let count = count.min((done >> from).trailing_zeros().into());
        let (near, nears) = match copies {
            0 => (0, 0),
            _ => {
                let near = random.below(count as usize) as u64;
                (from + near, 1 + random.below((count - near) as usize) as u64)
            }
        };
        let main = match nears {
            0 => from + random.below(count as usize) as u64,
            _ => near + random.below(nears as usize) as u64,
        };
        let words = width as usize / 64 + 1;
        let columns = if sums.is_some() { words * count as usize + 1 } else { 1 };
        let mut table = vec![0_u8; 8 * (HEADER + columns * states)];
        // Some ranges of groups, one after the other.
        let middle = random.below(elements.groups + 1);
        let counts = if done == 0 { counts } else { 0 };
        for (first, end) in [(0, middle), (middle, elements.groups)] {
            let mut parameters = elements.parameters.clone();
            parameters.extend([TABLE, elements.results as u64, elements.n as u64, 0]);
            parameters.extend([elements.groups, first, end - first].map(|x| x as u64));
            parameters.push(copies);
            if sums.is_some() {
                parameters.extend([i64::from(base).cast_unsigned(), from, count, near, nears]);
                parameters.extend([main, counts]);
            }
            let mut arrays: Vec<_> = elements.arrays.clone();
            let mut memory = HostMemory::default();
            arrays.iter_mut().for_each(|(address, bytes)| memory.add(*address, bytes));
            memory.add(TABLE, &mut table);
            emulated.run(&parameters, 1, &mut memory).unwrap_or_else(|why| panic!("{why}\n{text}"));
        }
        let table: Vec<u64> =
            table.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let column = |number: usize, state: usize| table[HEADER + number * states + state];
        if done == 0 {
            found.outside = table[0];
            found.last = (0..states).map(|state| column(columns - 1, state)).collect();
        }
        if sums.is_none() {
            return found;
        }
        for window in 0..count as usize {
            let sum = |state| (0..words).map(|word| column(words * window + word, state)).collect();
            let exponent = base + width * (from as i32 + window as i32);
            found.windows.push((exponent, (0..states).map(sum).collect()));
        }
        done |= ((1 << count) - 1) << from;
        left |= table[1];
        left &= !done;
        if left == 0 {
            return found;
        }
    }
}

/// The exact sum of a state.
fn state_of<K: Kind>(found: &Found, number: usize) -> State<K> {
    let mut words = K::ZERO;
    let last = found.last[number];
    words.as_mut()[0] = (last >> 3).cast_signed();
    (0..3).for_each(|flag| words.as_mut()[1 + flag] = (last >> flag & 1).cast_signed());
    let mut state = State::<K>::from_words(words);
    for (exponent, sums) in &found.windows {
        let (top, others) = sums[number].split_last().unwrap();
        let mut add = |units: i128, word: usize| {
            // Bits below the least exponent are zeros.
            let exponent = exponent + 64 * word as i32;
            let below = (K::LOW - exponent).clamp(0, 127);
            assert_eq!(units >> below << below, units, "bits below the least");
            state.add_units(units >> below, exponent + below);
        };
        others.iter().enumerate().for_each(|(word, &units)| add(units.into(), word));
        add(top.cast_signed().into(), others.len());
    }
    state
}

/// The result of a state. None for a group without elements, if it has no result.
fn result_of(program: &Program, found: &Found, number: usize) -> Option<Value> {
    let output = &program.outputs()[0];
    let word = found.last[number];
    let least = word ^ i64::MAX.cast_unsigned();
    let most = word ^ 1 << 63;
    let float = |key: u64, nan: u64| match output.ty {
        Type::F32 if key == nan => Value::F32(f32::NAN),
        Type::F32 => Value::F32(f32::from_bits(match key.cast_signed() {
            negative if negative < 0 => !(negative as u32) | 1 << 31,
            key => key as u32,
        })),
        _ if key == nan => Value::F64(f64::NAN),
        _ => Value::F64(f64::from_bits(if key >> 63 == 1 { !key | 1 << 63 } else { key })),
    };
    let integer = |word: u64| match output.ty {
        Type::I32 => Value::I32(word as i32),
        _ => Value::I64(word.cast_signed()),
    };
    Some(match (output.reduction()?, output.ty) {
        (Reduction::Sum, Type::F32) => Value::F32(state_of::<Sum<f32>>(found, number).value()),
        (Reduction::Sum, Type::F64) => Value::F64(state_of::<Sum<f64>>(found, number).value()),
        (Reduction::Mean, Type::F32) => Value::F32(mean(&state_of::<Sum<f32>>(found, number))),
        (Reduction::Mean, Type::F64) => Value::F64(mean(&state_of::<Sum<f64>>(found, number))),
        (Reduction::Dot, Type::F32) => Value::F32(state_of::<Dot<f32>>(found, number).value()),
        (Reduction::Dot, Type::F64) => Value::F64(state_of::<Dot<f64>>(found, number).value()),
        (Reduction::Norm, Type::F32) => Value::F32(root(&state_of::<Dot<f32>>(found, number))),
        (Reduction::Norm, Type::F64) => Value::F64(root(&state_of::<Dot<f64>>(found, number))),
        (Reduction::Min | Reduction::Max, _) if word == 0 => return None,
        (Reduction::Min, Type::F32 | Type::F64) => float(least, i64::MIN.cast_unsigned()),
        (Reduction::Max, Type::F32 | Type::F64) => float(most, i64::MAX.cast_unsigned()),
        (Reduction::Min, _) => integer(least),
        (Reduction::Max, _) => integer(most),
        (Reduction::Any, _) => Value::Bool(word > 0),
        (Reduction::All, _) => Value::Bool(word == 0),
        (Reduction::Prod, _) => Value::I64((word ^ 1).cast_signed()),
        _ => Value::I64(word.cast_signed()),
    })
}

/// Runs the kernels of a program, and compares each group's result with the oracle's.
fn check(random: &mut Random, program: &Program, elements: &Elements) {
    let name = template(program).expect("a kernel");
    let (_, template) =
        BY_KEY_TEMPLATES.iter().find(|(known, _)| *known == name).expect("a template");
    let output = &program.outputs()[0];
    let values = elements.values.iter().flatten().map(|inputs| results(program, inputs));
    let values: Vec<Vec<Value>> = values.collect();
    let key = |values: &Vec<Value>| values.last().unwrap().stored().cast_signed();
    let is_outside = |key: i64| usize::try_from(key).map_or(true, |key| key >= elements.groups);
    let outside = values.iter().position(|values| is_outside(key(values)));
    for limits in LIMITS {
        let kernel = match elements.axes {
            None => Kernel::with_limits(NAME, program, template, limits),
            Some(axes) => Kernel::along_axes(NAME, program, template, axes, limits).unwrap(),
        };
        let found = found(random, program, kernel.image().to_str().unwrap(), elements);
        assert_eq!(found.outside, outside.map_or(0, |index| !(index as u64)), "{program}");
        for number in 0..elements.results * elements.groups {
            let (result, group) = (number / elements.groups, number % elements.groups);
            let of_result = &values[result * elements.n..][..elements.n];
            let is_of_group = |values: &&Vec<Value>| key(values) == group as i64;
            let of_group: Vec<Vec<Value>> = of_result
                .iter()
                .filter(is_of_group)
                .map(|values| values[..values.len() - 1].to_vec())
                .collect();
            let expected =
                gpuvec_oracle::reduced(output.reduction().unwrap(), output.ty, &of_group);
            let found = result_of(program, &found, number);
            // NaNs are made one when results are stored.
            let bits = |value: Value| match value {
                Value::F32(x) if x.is_nan() => Value::F32(f32::NAN).stored(),
                Value::F64(x) if x.is_nan() => Value::F64(f64::NAN).stored(),
                value => value.stored(),
            };
            let [found, expected] = [found, expected].map(|value| value.map(bits));
            assert_eq!(found, expected, "group {group} of {}\n{program}", elements.groups);
        }
    }
}

/// Bits as the elements of an array.
fn bytes(values: &[Bits], element: Element) -> Vec<u8> {
    values.iter().flat_map(|bits| bits.to_le_bytes()[..element.bytes()].to_vec()).collect()
}

/// Random keys, sorted or not. About one of every `outside` keys is outside the groups; none is if `outside` is 0.
fn keys(random: &mut Random, n: usize, groups: usize, outside: usize) -> Vec<Bits> {
    let is_sorted = random.below(3) == 0;
    let key = |i: usize| match outside {
        _ if outside > 0 && random.below(outside) == 0 => {
            [groups as u64, u64::MAX, 1 << 31, groups as u64 + 7][random.below(4)]
        }
        _ if is_sorted => (i * groups / n.max(1)) as u64,
        _ => random.below(groups) as u64,
    };
    (0..n).map(key).collect()
}

fn address(number: usize) -> u64 {
    (number as u64 + 1) << 32
}

/// Contiguous arrays of three inputs, a scalar, and the key.
fn contiguous(
    random: &mut Random, elements: [Element; 2], n: usize, groups: usize, outside: usize,
) -> Elements {
    let [element, key] = elements;
    let mut inputs: Vec<Vec<Bits>> = (0..4).map(|_| random.values(element, n.max(1))).collect();
    inputs.push(keys(random, n, groups, outside));
    let of_element = |i: usize| {
        inputs.iter().enumerate().map(|(number, of)| of[if number == 3 { 0 } else { i }]).collect()
    };
    let arrays = [0, 1, 2, 4].map(|number| {
        (address(number), bytes(&inputs[number], if number == 4 { key } else { element }))
    });
    let parameters = (0..5).map(|number| if number == 3 { inputs[3][0] } else { address(number) });
    Elements {
        results: 1,
        n,
        groups,
        values: vec![(0..n).map(of_element).collect()],
        parameters: parameters.collect(),
        arrays: arrays.to_vec(),
        axes: None,
    }
}

/// Random strides along random axes.
fn strided(random: &mut Random, elements: [Element; 2], groups: usize) -> Elements {
    let [element, key] = elements;
    let axes = |random: &mut Random, most: usize| -> Vec<usize> {
        (0..1 + random.below(3)).map(|_| 1 + random.below(most)).collect()
    };
    let (kept, reduced) = (axes(random, 4), axes(random, 7));
    let [results, n] = [&kept, &reduced].map(|lengths| lengths.iter().product::<usize>());
    let all: Vec<usize> = kept.iter().chain(&reduced).copied().collect();
    let of_inputs: Vec<Vec<usize>> = (0..5).map(|_| strides(random, &all)).collect();
    let mut inputs: Vec<Vec<Bits>> = (0..4).map(|_| random.values(element, ROOM)).collect();
    inputs.push(keys(random, ROOM, groups, 0));
    let of_element = |result: usize, i: usize| {
        let (result, place) = (indexes(result, &kept), indexes(i, &reduced));
        let value = |(number, of): (usize, &Vec<Bits>)| {
            let (of_kept, of_reduced) = of_inputs[number].split_at(kept.len());
            let at = offset(&result, of_kept) + offset(&place, of_reduced);
            of[if number == 3 { 0 } else { at }]
        };
        inputs.iter().enumerate().map(value).collect()
    };
    let of_result = |result| (0..n).map(|i| of_element(result, i)).collect();
    let arrays = [0, 1, 2, 4].map(|number| {
        (address(number), bytes(&inputs[number], if number == 4 { key } else { element }))
    });
    let mut sizes = vec![element.bytes(); 4];
    sizes.extend([key.bytes(), 1]);
    let [of_kept, of_reduced]: [Vec<Vec<usize>>; 2] = [0..kept.len(), kept.len()..all.len()]
        .map(|part| of_inputs.iter().map(|of| of[part.clone()].to_vec()).collect());
    // The output's are not used.
    let with_output: Vec<_> = of_kept.into_iter().chain([vec![0; kept.len()]]).collect();
    let mut parameters: Vec<u64> =
        (0..5).map(|number| if number == 3 { inputs[3][0] } else { address(number) }).collect();
    parameters.extend(shape_parameters(&kept, &with_output, &sizes));
    parameters.extend(shape_parameters(&reduced, &of_reduced, &sizes));
    parameters.push(0);
    Elements {
        results,
        n,
        groups,
        values: (0..results).map(of_result).collect(),
        parameters,
        arrays: arrays.to_vec(),
        axes: Some(AxisReduction { outer: kept.len(), reduced: reduced.len() }),
    }
}

/// The text of a reduction of a type.
fn text(reduction: Reduction, element: Element) -> String {
    let name = reduction.name();
    match (reduction, element) {
        (Reduction::Any | Reduction::All | Reduction::Count, _) => format!("{name}(x < y)"),
        (Reduction::Dot, _) => format!("{name}(x + z, y * s)"),
        (Reduction::Prod, Element::I64) => format!("{name}(x * y - z | 1)"),
        (Reduction::Prod, _) => format!("{name}(i32(x * y - z) | 1)"),
        (Reduction::Sum | Reduction::Mean, _) => format!("{name}(x)"),
        _ => format!("{name}(x * y - z)"),
    }
}

/// The programs of the kernels of a reduction.
fn programs(reduction: Reduction, element: Element, key: Element) -> Vec<Program> {
    let program = program_of(&text(reduction, element), element, key);
    let (sums, _) = program.of_sums().unwrap();
    (0..sums.outputs().len()).map(|output| sums.of_outputs(&[output]).unwrap()).collect()
}

/// The reductions that have kernels by key.
fn reductions() -> impl Iterator<Item = Reduction> {
    let has_kernel = |reduction| !matches!(reduction, Reduction::ArgMin | Reduction::ArgMax);
    Reduction::ALL.iter().copied().filter(move |reduction| has_kernel(*reduction))
}

#[test]
fn every_reduction_of_every_type() {
    let mut random = Random(21);
    for &element in Element::ALL {
        if element == Element::Bool {
            continue;
        }
        for reduction in reductions() {
            for program in programs(reduction, element, Element::I32) {
                for (n, groups) in [(0, 3), (1, 1), (2, 2), (31, 7), (32, 1), (33, 100), (1000, 7)]
                {
                    let outside = [0, 0, 50][random.below(3)];
                    let of = [element, Element::I32];
                    let elements = contiguous(&mut random, of, n, groups, outside);
                    check(&mut random, &program, &elements);
                }
            }
        }
    }
}

#[test]
fn any_strides() {
    let mut random = Random(22);
    for element in [Element::I16, Element::I64, Element::F32, Element::F64] {
        for reduction in reductions() {
            for program in programs(reduction, element, Element::U8) {
                for groups in [1, 2, 7, 30] {
                    let elements = strided(&mut random, [element, Element::U8], groups);
                    check(&mut random, &program, &elements);
                }
            }
        }
    }
}

#[test]
fn many_groups_and_wide_keys() {
    let mut random = Random(23);
    for element in [Element::F32, Element::F64] {
        for reduction in [Reduction::Sum, Reduction::Dot, Reduction::Mean, Reduction::Min] {
            for program in programs(reduction, element, Element::I64) {
                for (n, groups) in [(3000, 5000), (4097, 300)] {
                    let of = [element, Element::I64];
                    let elements = contiguous(&mut random, of, n, groups, 1000);
                    check(&mut random, &program, &elements);
                }
            }
        }
    }
}
