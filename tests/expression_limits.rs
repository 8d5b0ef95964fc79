//! The largest expressions: their memory and stack, through the exported functions.

use ::gpuvec_expr::Op;
use gpuvec::abi::expr::*;
use gpuvec::gpuvec_expr_form::GPUVEC_EXPR_PTX;
use gpuvec::{GPUVEC_SCALAR, gpuvec_expr, gpuvec_status, gpuvec_type::*};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::thread;

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

/// Compiles a text; the handle is NULL if the text is wrong.
fn compile(text: &str) -> *mut gpuvec_expr {
    let text = CString::new(text).expect("no NUL");
    let names = [c"i", c"f", c"d", c"s", c"m"].map(|name| name.as_ptr());
    let types = [GPUVEC_I32, GPUVEC_F32, GPUVEC_F64, GPUVEC_F64, GPUVEC_BOOL].map(|ty| ty as i32);
    let types = [types[0], types[1], types[2], types[3] | GPUVEC_SCALAR, types[4]];
    let mut expr = null_mut();
    // SAFETY: C strings and five types.
    unsafe { gpuvec_expr_compile(text.as_ptr(), names.as_ptr(), types.as_ptr(), 5, &raw mut expr) };
    expr
}

/// Runs an expression on a few elements.
fn run(expr: *mut gpuvec_expr) -> i32 {
    let (array, mut out) = ([0_u64; 8], [[0_u64; 8]; 8]);
    let inputs = [array.as_ptr().cast::<c_void>(); 5];
    let outputs = out.each_mut().map(|out| out.as_mut_ptr().cast::<c_void>());
    let (inputs, first, outputs) = (inputs.as_ptr(), outputs[0], outputs.as_ptr());
    // SAFETY: eight elements of any type each, and room for all outputs.
    unsafe {
        match outputs_of(expr) {
            1 => gpuvec_expr_run(expr, inputs, first, 8, null_mut()),
            several => gpuvec_expr_run_outputs(expr, inputs, outputs, several, 8, null_mut()),
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

/// Does work in a thread of a small stack. (From a quarter of another thread's stack on, glibc would
/// reuse that one.)
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK).spawn(work);
    assert!(thread.expect("a thread").join().is_ok());
}

#[test]
fn texts_compile_and_run_on_a_small_stack() {
    for text in texts() {
        on_a_small_stack(move || {
            let expr = compile(&text);
            if !expr.is_null() {
                assert_eq!(run(expr), OK);
                let form = GPUVEC_EXPR_PTX as i32;
                // SAFETY: no text is stored.
                let status = unsafe { gpuvec_expr_text(expr, form, null_mut(), 0, null_mut()) };
                assert_eq!((status, gpuvec_expr_destroy(expr)), (OK, OK));
            }
        });
    }
}
