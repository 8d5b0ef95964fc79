//! The largest expressions: their memory and stack, through the exported functions.

use ::gpuvec_expr::{MAX_OUTPUTS, Op};
use gpuvec::abi::accumulator::*;
use gpuvec::abi::elementwise::{gpuvec_add_f32, gpuvec_axpy_f64};
use gpuvec::abi::expr::*;
use gpuvec::abi::memory::gpuvec_copy;
use gpuvec::abi::reduce::{gpuvec_dot_f64, gpuvec_dot_i64, gpuvec_max_f32, gpuvec_sum_f32};
use gpuvec::gpuvec_expr_form::GPUVEC_EXPR_PTX;
use gpuvec::{
    GPUVEC_SCALAR, gpuvec_accumulator_kind, gpuvec_array, gpuvec_expr, gpuvec_status,
    gpuvec_type::*,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

/// Counts the bytes of a thread's allocations. An allocation that is freed at once was only a check
/// whether memory is left.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Clone, Copy)]
struct Count {
    live: isize,
    most: isize,
    /// The newest allocation, if nothing happened since.
    newest: usize,
    asked_for: isize,
}

const ZERO: Count = Count { live: 0, most: 0, newest: 0, asked_for: 0 };

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(ZERO) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this function's promise.
        let memory = unsafe { System.alloc(layout) };
        let mut count = COUNT.get();
        count.most = count.most.max(count.live);
        count.live += layout.size().cast_signed();
        count.newest = memory.addr();
        COUNT.set(count);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let mut count = COUNT.get();
        let size = layout.size().cast_signed();
        if count.newest == memory.addr() {
            count.asked_for = count.asked_for.max(size);
        } else {
            count.most = count.most.max(count.live);
        }
        count.live -= size;
        count.newest = 0;
        COUNT.set(count);
        // SAFETY: this function's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Fails if `work`, which makes several things, allocates more than it asked for beforehand for each of them.
fn counted<T>(what: &str, things: usize, work: impl FnOnce() -> T) -> T {
    COUNT.set(ZERO);
    let result = work();
    let Count { live, most, asked_for, .. } = COUNT.get();
    let most = most.max(live);
    let asked_for = asked_for * things.cast_signed();
    println!("{what}: {most} bytes of {asked_for}");
    assert!(most <= asked_for, "{what}: {most} bytes, but {asked_for} were asked for");
    result
}

const OK: i32 = gpuvec_status::GPUVEC_OK as i32;

/// A sum of terms, each of its number.
fn sum(terms: usize, term: impl Fn(usize) -> String) -> String {
    (0..terms).map(term).collect::<Vec<_>>().join("+")
}

/// Texts that need many resources, of an i32 `i`, an f32 `f`, an f64 `d`, a scalar `s` and a bool
/// `m`.
fn texts() -> Vec<String> {
    vec![
        ["", "sum", "max", "mean", "argmin", "norm", "dot"].map(long_formula).join(";"),
        ["any", "all", "count", "sum", "mean", "any", "all", "count"].map(long_condition).join(";"),
        ["sum", "min", "mean", "max"]
            .map(|name| format!("{name}({})", every_function(0)))
            .join(";"),
        "i+".repeat(4095) + "i",
        "i+".repeat(4096) + "i",
        sum(16, |k| format!("(i+{k})**{}", i128::MAX)),
        sum(1363, |k| format!("d*{k}.{}", "5".repeat(38))),
        sum(1000, |k| format!("i64(i*{k})")),
        sum(1363, |k| format!("s*{k}.5")),
        "i+".repeat(4000) + &"x".repeat(50_000),
        "d".to_owned() + &" ".repeat(65_535),
        sum(100, |k| format!("tan(d*{k}.5)")),
        sum(100, |k| format!("pow(f, {k}.5)")),
        format!("sum({})", sum(100, |k| format!("tan(d*{k}.5)"))),
        format!("norm({})", sum(100, |k| format!("erf(f*{k}.5)"))),
        sum(22, |k| format!("tan(d*{k}.5)")),
        format!("sum({})", sum(240, |k| format!("exp(f*{k}.5)"))),
        sum(1000, |k| format!("tan(d*{k}.5)")),
        format!("norm({})", sum(1000, |k| format!("pow(f,{k}.5)"))),
        sum(2, |k| format!("({})", every_function(k))),
        "d".to_owned() + &"%s".repeat(4094),
        "d+1*(".repeat(200) + "d" + &")".repeat(200),
        "m|m&(i<1+2*-".repeat(100) + "i" + &")".repeat(100),
        "fma(i,i,m|m&i+i*".repeat(200),
        "fma(d,d,d<d<d|m&d+d*-".repeat(100) + "d" + &")".repeat(100),
        "sum(".to_owned() + &"where(m,d,d+d*-".repeat(99) + "d" + &")".repeat(100),
    ]
}

/// A formula of 3,000 values.
fn long_formula(reduction: &str) -> String {
    let terms = sum(700, |k| format!("(d*{k}+i)"));
    if reduction == "dot" { format!("dot(d,{terms})") } else { format!("{reduction}({terms})") }
}

/// A condition of 3,000 values.
fn long_condition(reduction: &str) -> String {
    let terms: Vec<_> = (0..700).map(|k| format!("(d*{k}<i)")).collect();
    let all = if reduction == "mean" { "f32(m)".into() } else { terms.join("|") };
    format!("{reduction}({all})")
}

/// A sum of all functions, of f32 and of f64.
fn every_function(number: usize) -> String {
    let call = |&op: &Op| match op.arity() {
        1 => format!("{0}(f+{number})+{0}(d+{number})", op.name()),
        2 => format!("{0}(f,{number})+{0}(d,{number})", op.name()),
        _ if op == Op::Where => "where(m,f,d)".into(),
        _ => format!("fma(f,d,{number})"),
    };
    Op::FUNCTIONS.iter().map(call).collect::<Vec<_>>().join("+")
}

/// The types of the inputs.
const TYPES: [i32; 5] = [
    GPUVEC_I32 as i32,
    GPUVEC_F32 as i32,
    GPUVEC_F64 as i32,
    GPUVEC_F64 as i32 | GPUVEC_SCALAR,
    GPUVEC_BOOL as i32,
];

/// Compiles a text; the handle is NULL if the text is wrong.
fn compile(text: &str) -> *mut gpuvec_expr {
    let text = CString::new(text).expect("no NUL");
    let names = [c"i", c"f", c"d", c"s", c"m"].map(|name| name.as_ptr());
    let mut expr = null_mut();
    // SAFETY: C strings and five types.
    unsafe { gpuvec_expr_compile(text.as_ptr(), names.as_ptr(), TYPES.as_ptr(), 5, &raw mut expr) };
    expr
}

/// The elements of each array.
const N: usize = 4000;

/// The arrays of a call: the inputs, and room for eight outputs of any type.
struct Arrays {
    integers: Vec<i32>,
    floats: Vec<f32>,
    doubles: Vec<f64>,
    bools: Vec<bool>,
    outputs: Vec<[u64; N]>,
}

impl Arrays {
    /// Floats whose exponents differ too much for a window: their exact sum takes the longest way.
    fn new() -> Self {
        Arrays {
            integers: (0..N as i32).collect(),
            floats: (0..N as i32).map(|k| 2_f32.powi(k * 37 % 200 - 100)).collect(),
            doubles: (0..N as i32).map(|k| 2_f64.powi(k * 397 % 2000 - 1000)).collect(),
            bools: (0..N).map(|k| k % 3 == 0).collect(),
            outputs: vec![[0; N]; MAX_OUTPUTS],
        }
    }

    /// The addresses of the inputs, and of the outputs.
    fn addresses(&mut self) -> ([*mut c_void; 5], [*mut c_void; MAX_OUTPUTS]) {
        let doubles = self.doubles.as_mut_ptr().cast();
        let inputs = [
            self.integers.as_mut_ptr().cast(),
            self.floats.as_mut_ptr().cast(),
            doubles,
            doubles,
            self.bools.as_mut_ptr().cast(),
        ];
        (inputs, std::array::from_fn(|output| self.outputs[output].as_mut_ptr().cast()))
    }
}

/// Runs an expression on arrays.
fn run(expr: *mut gpuvec_expr, arrays: &mut Arrays) -> i32 {
    let (inputs, outputs) = arrays.addresses();
    let inputs = inputs.map(<*mut c_void>::cast_const);
    let (inputs, first, outputs) = (inputs.as_ptr(), outputs[0], outputs.as_ptr());
    // SAFETY: the arrays have these elements.
    unsafe {
        match outputs_of(expr) {
            1 => gpuvec_expr_run(expr, inputs, first, N, null_mut()),
            several => gpuvec_expr_run_outputs(expr, inputs, outputs, several, N, null_mut()),
        }
    }
}

fn outputs_of(expr: *mut gpuvec_expr) -> usize {
    usize::try_from(gpuvec_expr_num_outputs(expr)).expect("a number")
}

#[test]
fn no_text_takes_more_memory_than_was_asked_for() {
    // The first call creates the values that last.
    gpuvec_expr_destroy(compile("i"));
    for text in texts() {
        let name = format!("{:.20} of {} bytes", text, text.len());
        let expr = counted(&name, 1, || compile(&text));
        if !expr.is_null() {
            let form = GPUVEC_EXPR_PTX as i32;
            // SAFETY: no text is stored.
            let kernel = || unsafe { gpuvec_expr_text(expr, form, null_mut(), 0, null_mut()) };
            let what = format!("the kernels of {name}");
            assert_eq!(counted(&what, outputs_of(expr), kernel), OK);
            assert_eq!(gpuvec_expr_destroy(expr), OK);
        }
    }
}

/// Less than the 128 KiB of the threads that musl makes by default. Builds that are not optimised have
/// larger frames.
const STACK: usize = if cfg!(debug_assertions) { 512 << 10 } else { 96 << 10 };

/// Fails if `work` needs more stack in a thread of its own.
fn on_a_small_stack(what: &str, mut work: impl FnMut()) {
    const WORDS: usize = (4 * STACK) / size_of::<u64>();
    const UNUSED: u64 = 0x5AA5_5AA5_5AA5_5AA5;
    #[repr(align(65536))]
    struct Stack([u64; WORDS]);
    extern "C" fn start(work: *mut c_void) -> *mut c_void {
        // SAFETY: the work below, which no other thread uses meanwhile.
        unsafe { (*work.cast::<&mut dyn FnMut()>())() };
        null_mut()
    }
    let mut stack = Box::<Stack>::new_uninit();
    // SAFETY: writes all words.
    let mut stack = unsafe {
        (&raw mut (*stack.as_mut_ptr()).0).cast::<u64>().write_bytes(0, WORDS);
        stack.assume_init()
    };
    stack.0.fill(UNUSED);
    let mut work: &mut dyn FnMut() = &mut work;
    // SAFETY: the thread ends before its stack and the work do.
    unsafe {
        let (mut attributes, mut thread) = (std::mem::zeroed(), std::mem::zeroed());
        assert_eq!(libc::pthread_attr_init(&raw mut attributes), 0);
        let memory = stack.0.as_mut_ptr().cast();
        assert_eq!(libc::pthread_attr_setstack(&raw mut attributes, memory, size_of::<Stack>()), 0);
        let work = (&raw mut work).cast();
        assert_eq!(libc::pthread_create(&raw mut thread, &raw const attributes, start, work), 0);
        assert_eq!(libc::pthread_join(thread, null_mut()), 0);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    let unused = stack.0.iter().take_while(|word| **word == UNUSED).count();
    let used = (WORDS - unused) * size_of::<u64>();
    println!("{what}: {used} bytes of stack");
    assert!(used <= STACK, "{what}: {used} bytes of stack, which are more than {STACK}");
}

/// A `DLTensor`, as dlpack.h defines it.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: (i32, i32),
    ndim: i32,
    dtype: (u8, u8, u16),
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// DLPack's code and bits of a type.
fn dlpack_type(ty: i32) -> (u8, u8, u16) {
    let is = |of: gpuvec::gpuvec_type| ty & 0xFF == of as i32;
    match ty {
        _ if is(GPUVEC_BOOL) => (6, 8, 1),
        _ if is(GPUVEC_I32) => (0, 32, 1),
        _ if is(GPUVEC_I64) => (0, 64, 1),
        _ if is(GPUVEC_F32) => (2, 32, 1),
        _ => (2, 64, 1),
    }
}

/// The bytes of an element of a type.
fn bytes(ty: i32) -> i64 {
    i64::from(dlpack_type(ty).1 / 8)
}

/// Ways to pass the same arrays: their shape, and the steps along its axes, in elements.
const LAYOUTS: [(&str, &[i64], &[i64]); 4] = [
    ("contiguous", &[N as i64], &[1]),
    ("strided", &[N as i64 / 2], &[2]),
    ("transposed", &[4, N as i64 / 8], &[1, 8]),
    ("of 32 axes", &[1; 32], &[1; 32]),
];

/// Runs an expression on arrays of a layout, by `gpuvec_expr_run_nd` or of tensors; its reductions reduce the last
/// axis or all axes.
fn run_strided(
    expr: *mut gpuvec_expr, arrays: &mut Arrays, shape: &[i64], steps: &[i64], reduces_all: bool,
    is_tensor: bool,
) -> i32 {
    let axes = shape.len();
    let count = outputs_of(expr);
    let is_value = |index| gpuvec_expr_is_reduction_at(expr, index) == 1;
    let reduces = (0..count).any(is_value);
    let reduced_axes = match reduces {
        true if reduces_all => (1_u64 << axes) - 1,
        true => 1 << (axes - 1),
        false => 0,
    };
    let of_output = |index: usize| gpuvec_expr_output_type_at(expr, index);
    let types: Vec<i32> = TYPES.into_iter().chain((0..count).map(of_output)).collect();
    let strides = |ty: i32| -> Vec<i64> { steps.iter().map(|step| step * bytes(ty)).collect() };
    let strides: Vec<Vec<i64>> = types.iter().map(|ty| strides(*ty)).collect();
    let (inputs, outputs) = arrays.addresses();
    let data = [&inputs[..], &outputs].concat();
    if !is_tensor {
        let arrays: Vec<gpuvec_array> = std::iter::zip(&data, &strides)
            .map(|(data, strides)| gpuvec_array { data: *data, strides: strides.as_ptr() })
            .collect();
        let (inputs, outputs) = (arrays.as_ptr(), arrays[TYPES.len()..].as_ptr());
        let ndim = axes as i32;
        // SAFETY: the arrays have the elements that these steps lead to.
        return unsafe {
            let shape = shape.as_ptr();
            gpuvec_expr_run_nd(expr, ndim, shape, inputs, outputs, reduced_axes, null_mut())
        };
    }
    let ones = [1; 32];
    let kept: Vec<i64> =
        (0..axes).map(|axis| if reduced_axes >> axis & 1 == 1 { 1 } else { shape[axis] }).collect();
    let tensor = |number: usize| {
        let own = match number.checked_sub(TYPES.len()) {
            None if TYPES[number] & GPUVEC_SCALAR != 0 => &ones[..axes],
            Some(index) if is_value(index) => &kept,
            _ => shape,
        };
        Tensor {
            data: data[number],
            device: (1, 0),
            ndim: axes as i32,
            dtype: dlpack_type(types[number]),
            shape: own.as_ptr(),
            strides: steps.as_ptr(),
            byte_offset: 0,
        }
    };
    let tensors: Vec<Tensor> = (0..types.len()).map(tensor).collect();
    let pointers: Vec<*const c_void> =
        tensors.iter().map(|tensor| (&raw const *tensor).cast()).collect();
    let (inputs, outputs) = (pointers.as_ptr(), pointers[TYPES.len()..].as_ptr());
    // SAFETY: as above.
    unsafe { gpuvec_expr_run_dlpack(expr, inputs, outputs, reduced_axes, null_mut()) }
}

#[test]
fn texts_compile_and_run_on_a_small_stack() {
    let mut arrays = Arrays::new();
    for text in texts().into_iter().chain(passes()) {
        let name = format!("{:.20} of {} bytes", text, text.len());
        let mut expr = null_mut();
        on_a_small_stack(&format!("compiling {name}"), || expr = compile(&text));
        if expr.is_null() {
            continue;
        }
        on_a_small_stack(&format!("running {name}"), || assert_eq!(run(expr, &mut arrays), OK));
        for (layout, shape, steps) in LAYOUTS {
            for (reduces_all, is_tensor) in
                [(true, false), (true, true), (false, false), (false, true)]
            {
                let by = if is_tensor { "tensors" } else { "arrays" };
                let axes = if reduces_all { "all axes" } else { "one axis" };
                let what = format!("{layout} {by} along {axes} by {name}");
                on_a_small_stack(&what, || {
                    let status =
                        run_strided(expr, &mut arrays, shape, steps, reduces_all, is_tensor);
                    // Reductions inside formulas reduce all axes.
                    let is_refused = !reduces_all && passes().contains(&text);
                    let value = gpuvec_status::GPUVEC_ERROR_VALUE as i32;
                    assert!(status == OK || is_refused && status == value, "{what}: {status}");
                });
            }
        }
        on_a_small_stack(&format!("the kernels of {name}"), || {
            let form = GPUVEC_EXPR_PTX as i32;
            // SAFETY: no text is stored.
            let status = unsafe { gpuvec_expr_text(expr, form, null_mut(), 0, null_mut()) };
            assert_eq!(status, OK);
        });
        on_a_small_stack(&format!("the end of {name}"), || {
            assert_eq!(gpuvec_expr_destroy(expr), OK);
        });
    }
}

/// Texts with reductions inside formulas.
fn passes() -> Vec<String> {
    let reductions = ["sum", "max", "mean", "norm", "dot", "sum"].map(long_formula).join("+");
    vec![format!("d/({reductions})"), format!("var(d)+std(f)+{reductions}")]
}

/// Adds to accumulators: arrays of `n` elements, and along axes those of a layout.
fn accumulate(kind: gpuvec_accumulator_kind, values: &[f64], shape: &[i64], steps: &[i64]) {
    use gpuvec_accumulator_kind::*;
    let is_dot = matches!(kind, GPUVEC_ACCUMULATOR_DOT_F32 | GPUVEC_ACCUMULATOR_DOT_F64);
    let is_f32 = matches!(kind, GPUVEC_ACCUMULATOR_SUM_F32 | GPUVEC_ACCUMULATOR_DOT_F32);
    let floats: Vec<f32> = values.iter().map(|value| value.powf(0.1) as f32).collect();
    let (data, bytes) = match is_f32 {
        true => (floats.as_ptr().cast::<c_void>(), 4),
        false => (values.as_ptr().cast::<c_void>(), 8),
    };
    let strides: Vec<i64> = steps.iter().map(|step| step * bytes).collect();
    let array = gpuvec_array { data: data.cast_mut(), strides: strides.as_ptr() };
    let second = if is_dot { data } else { std::ptr::null() };
    let (arrays, axes) = ([array, array], shape.len() as i32);
    let kept = &shape[..shape.len() - 1];
    // SAFETY: the arrays have the elements that these steps lead to.
    unsafe {
        let one = gpuvec_accumulator_create(kind as i32);
        assert_eq!(gpuvec_accumulator_add(one, data, second, values.len(), null_mut()), OK);
        let (lengths, inputs, all) = (shape.as_ptr(), arrays.as_ptr(), (1_u64 << axes) - 1);
        assert_eq!(gpuvec_accumulator_add_nd(one, axes, lengths, inputs, all, null_mut()), OK);
        let several = gpuvec_accumulator_create_nd(kind as i32, axes - 1, kept.as_ptr());
        let last = 1 << kept.len();
        assert_eq!(gpuvec_accumulator_add_nd(several, axes, lengths, inputs, last, null_mut()), OK);
        for accumulator in [one, several] {
            assert_eq!(gpuvec_accumulator_merge(accumulator, accumulator), OK);
            assert_eq!(gpuvec_accumulator_destroy(accumulator), OK);
        }
    }
}

/// Runs operations of each kind.
fn operate(values: &[f64]) {
    let (n, mut out) = (values.len(), values.to_vec());
    let (a, out) = (values.as_ptr(), out.as_mut_ptr());
    // SAFETY: `n` elements of at most 8 bytes.
    unsafe {
        let stream = null_mut();
        assert_eq!(gpuvec_add_f32(a.cast(), a.cast(), out.cast(), n, stream), OK);
        assert_eq!(gpuvec_axpy_f64(2.0, a, a, out, n, stream), OK);
        assert_eq!(gpuvec_sum_f32(a.cast(), out.cast(), n, stream), OK);
        assert_eq!(gpuvec_dot_f64(a, a, out, n, stream), OK);
        assert_eq!(gpuvec_dot_i64(a.cast(), a.cast(), out.cast(), n, stream), OK);
        assert_eq!(gpuvec_max_f32(a.cast(), out.cast(), n, stream), OK);
        assert_eq!(gpuvec_copy(out.cast(), a.cast(), 8 * n, stream), OK);
    }
}

#[test]
fn operations_and_accumulators_run_on_a_small_stack() {
    use gpuvec_accumulator_kind::*;
    let doubles = Arrays::new().doubles;
    for n in [3, N, 75 * N] {
        let values: Vec<f64> = doubles.iter().copied().cycle().take(n.max(N)).collect();
        on_a_small_stack(&format!("operations on {n} elements"), || operate(&values[..n]));
        for (layout, shape, steps) in LAYOUTS {
            for kind in [
                GPUVEC_ACCUMULATOR_SUM_F32,
                GPUVEC_ACCUMULATOR_DOT_F32,
                GPUVEC_ACCUMULATOR_SUM_F64,
                GPUVEC_ACCUMULATOR_DOT_F64,
            ] {
                let what = format!("{kind:?} of {n} elements and of arrays {layout}");
                on_a_small_stack(&what, || accumulate(kind, &values, shape, steps));
            }
        }
    }
}
