//! Every access is at a multiple of its width, as the PTX ISA requires; a GPU stops at any other address.

use gpuvec_emulator::{Fault, HostMemory, Kernel};

const HEAD: &str = ".version 8.0\n.target sm_60\n.address_size 64\n";

/// The address of the only array, a multiple of all widths.
const ARRAY: u64 = 0x1000;

/// Runs one thread block of a kernel with these parameters.
fn run(text: &str, parameters: &[u64]) -> Result<u64, Fault> {
    let mut bytes = [0; 256];
    let mut memory = HostMemory::default();
    memory.add(ARRAY, &mut bytes);
    let kernel = Kernel::parse(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    kernel.run(parameters, 1, &mut memory)
}

/// Runs an instruction whose address is in the register %eq4.
fn access(instruction: &str, at: u64) -> Result<u64, Fault> {
    let text = format!(
        "{HEAD}.visible .entry test(
.param .u64 p0
)
.reqntid 256
{{
.shared .align 16 .b8 block[64];
.local .align 16 .b8 thread[64];
.reg .b32 %er<4>;
.reg .b64 %eq<5>;
ld.param.u64 %eq4, [p0];
{instruction};
ret;
}}
"
    );
    run(&text, &[at])
}

#[test]
fn accesses_are_at_multiples_of_their_width() {
    let types = [("u8", 1, "er"), ("u16", 2, "er"), ("u32", 4, "er"), ("u64", 8, "eq")];
    for (ty, bytes, class) in types {
        for (vector, count) in [("", 1), (".v2", 2), (".v4", 4)] {
            if count * bytes > 16 {
                continue;
            }
            let registers: Vec<String> = (0..count).map(|i| format!("%{class}{i}")).collect();
            let registers = match count {
                1 => registers.concat(),
                _ => format!("{{{}}}", registers.join(", ")),
            };
            for (space, start) in [("global", ARRAY), ("shared", 0), ("local", 0)] {
                for offset in 0..=16 {
                    for instruction in [
                        format!("ld.{space}{vector}.{ty} {registers}, [%eq4]"),
                        format!("st.{space}{vector}.{ty} [%eq4], {registers}"),
                    ] {
                        let outcome = access(&instruction, start + offset);
                        let is_refused = matches!(outcome, Err(Fault::Misaligned(_)));
                        let is_aligned = offset.is_multiple_of(count * bytes);
                        assert_ne!(is_refused, is_aligned, "{instruction} at {offset}");
                        assert_eq!(outcome.is_ok(), is_aligned, "{instruction} at {offset}");
                    }
                }
            }
        }
    }
    for offset in 0..=8 {
        let outcome = access("atom.shared.add.u32 %er0, [%eq4], 1", offset);
        assert_eq!(outcome.is_ok(), offset.is_multiple_of(4), "{offset}");
    }
}

/// The emulator stands in for the compiled part of a reduction, which stores the words of a state, or a result.
#[test]
fn states_and_results_are_at_multiples_of_their_words() {
    for (reduction, state, result) in [
        ("min i32", 4, 4),
        ("max f64", 8, 8),
        ("sum i64", 8, 8),
        ("any bool", 8, 1),
        ("argmin f32", 8, 8),
    ] {
        let text = format!(
            "{HEAD}.visible .entry test(
.param .u64 out,
.param .u64 n,
.param .u64 flags,
.param .u64 scratch,
.param .u64 result,
.param .u64 first
)
{{
// 16 elements of {reduction}: %q1 %q2 %q3 %q4
{{
mov.b64 %q1, 1;
mov.b64 %q2, 0;
}}
// end
"
        );
        for offset in 0..=16 {
            for (width, parameters) in [
                (state, [ARRAY + offset, 1, 0, 0, 0, 0]),
                (result, [0, 1, 0, 0, ARRAY + offset, 0]),
            ] {
                let outcome = run(&text, &parameters);
                assert_eq!(
                    matches!(outcome, Err(Fault::Misaligned(_))),
                    !offset.is_multiple_of(width),
                    "{reduction} at {offset}: {outcome:?}"
                );
            }
        }
    }
}
