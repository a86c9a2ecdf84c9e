//! A GPU gives the same bits: its driver compiles the kernels, and the results are compared one by one.
use crate::list::{INSTRUCTIONS, kernels, operands};
use crate::software;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::is_culib_present;
use ptx::run::Vectors;
use std::ffi::{CString, c_void};
use std::fmt::Write as _;

const THREADS: usize = 1 << 16;
const BLOCKS: usize = THREADS / 256;
/// The architecture for which the kernels are written.
const ARCHITECTURE: i32 = 9;

/// The name of the first GPU, which is made current.
fn device() -> Result<String, String> {
    use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    // SAFETY: runs the initialisers of the library that is called libcuda.
    if !std::panic::catch_unwind(|| unsafe { is_culib_present() }).unwrap_or(false) {
        return Err("there is no CUDA driver".into());
    }
    let name = || -> Result<(String, i32), DriverError> {
        result::init()?;
        let device = result::device::get(0)?;
        // SAFETY: the device exists, and its primary context is kept.
        unsafe {
            result::ctx::set_current(result::primary_ctx::retain(device)?)?;
            let major = result::device::get_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            Ok((result::device::get_name(device)?, major))
        }
    };
    let (name, major) = name().map_err(|error| error.to_string())?;
    if major < ARCHITECTURE {
        Err(format!("the kernels need compute capability {ARCHITECTURE}.0; this is {name}"))
    } else {
        Ok(name)
    }
}

/// The results of an instruction, as in software.
fn results(number: usize, text: &str, input: &[u64]) -> Result<Vec<u64>, DriverError> {
    let text = CString::new(text).unwrap();
    let mut results = vec![0u64; THREADS];
    // SAFETY: both arrays are as long as the kernel expects, and are freed after it has ended.
    unsafe {
        let module = result::module::load_data(text.as_ptr().cast())?;
        let function = result::module::get_function(module, CString::new(format!("k{number}")).unwrap())?;
        let (array, out) = (result::malloc_sync(8 * input.len())?, result::malloc_sync(8 * THREADS)?);
        result::memcpy_htod_sync(array, input)?;
        result::memset_d8_sync(out, 0, 8 * THREADS)?;
        let mut parameters = [(&raw const array).cast_mut().cast::<c_void>(), (&raw const out).cast_mut().cast()];
        let (grid, block) = ((BLOCKS as u32, 1, 1), ((THREADS / BLOCKS) as u32, 1, 1));
        result::launch_kernel(function, grid, block, 0, result::stream::null(), &mut parameters)?;
        result::memcpy_dtoh_sync(&mut results, out)?;
        result::free_sync(array)?;
        result::free_sync(out)?;
        result::module::unload(module)?;
    }
    Ok(results)
}

/// True if both are the same, as far as the ISA and the compiler's output define them.
fn agree(instruction: &str, b: u64, found: u64, expected: u64) -> bool {
    let both_nan = f64::from_bits(found).is_nan() && f64::from_bits(expected).is_nan();
    // At most 2 units in the last place; other rules apply to divisors from 2^126 on (PTX ISA, 9.7.3.8).
    let close = found.abs_diff(expected) <= 2 || f32::from_bits(b as u32).abs() >= 2f32.powi(126);
    found == expected
        || instruction.starts_with("div.approx.f32") && close
        // The compiler chooses which operand of a sum comes first, and so which of two NaNs stays.
        || instruction.contains("mul.rn.f64") && both_nan
}

#[test]
fn a_gpu_gives_the_same_bits() {
    let name = match device() {
        Ok(name) => name,
        Err(why) if std::env::var("COLLSPEC_REQUIRE").is_ok_and(|required| required == "nccl") => panic!("{why}"),
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let texts = kernels(THREADS);
    let mut differences = vec![(0usize, String::new()); INSTRUCTIONS.len()];
    let rounds = 4;
    for round in 0..rounds {
        let mut input = [1, 2, 3].map(|array| operands(THREADS, 10 * round + array)).concat();
        if round == 0 {
            // every number of 16 bits, in every part of the first operand
            (0..THREADS).for_each(|thread| input[thread] = 0x1_0001_0001_0001 * thread as u64);
        }
        let found = software::results(&texts, Vectors::best(), &input, BLOCKS);
        for (number, (found, (count, first))) in found.iter().zip(&mut differences).enumerate() {
            let expected = match results(number, &texts[number], &input) {
                Ok(expected) => expected,
                Err(error) => {
                    *count += THREADS;
                    writeln!(first, "    {error}").unwrap();
                    continue;
                }
            };
            for thread in (0..THREADS).filter(|thread| {
                !agree(INSTRUCTIONS[number].0, input[THREADS + *thread], found[*thread], expected[*thread])
            }) {
                if *count < 3 {
                    let [a, b, c] = [0, 1, 2].map(|array| input[array * THREADS + thread]);
                    writeln!(
                        first,
                        "    of {a:#x}, {b:#x}, {c:#x}: {:#x} and not {:#x}",
                        found[thread], expected[thread]
                    )
                    .unwrap();
                }
                *count += 1;
            }
        }
    }
    let each = THREADS * rounds as usize;
    let mut told = String::new();
    for ((instruction, ..), (count, first)) in
        INSTRUCTIONS.iter().zip(&differences).filter(|(_, (count, _))| *count > 0)
    {
        writeln!(told, "  {}: {count} of {each}\n{first}", instruction.replace('\n', " ")).unwrap();
    }
    assert!(told.is_empty(), "differences from {name}:\n{told}");
    println!("{} instructions on {name}: the same bits in {each} threads each", INSTRUCTIONS.len());
}
