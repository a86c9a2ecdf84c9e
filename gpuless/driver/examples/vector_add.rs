//! Adds two arrays with the driver's functions: on a GPU, or without one on this crate's devices (see the README of the folder above).
#![allow(unsafe_code)] // the driver's C interface

use libloading::{Library, Symbol};
use std::error::Error;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{from_ref, null, null_mut};

const KERNEL: &str =
    concat!(".version 7.0\n.target sm_80\n.address_size 64\n", include_str!("../../ptx/examples/add.ptx"), "\0");

/// Calls a function of the driver, whose result is an error unless it is 0.
macro_rules! call {
    ($driver:expr, $name:ident($($value:expr => $type:ty),* $(,)?)) => {{
        let function: Symbol<unsafe extern "C" fn($($type),*) -> c_int> =
            $driver.get(concat!(stringify!($name), "\0").as_bytes())?;
        match function($($value),*) {
            0 => Ok(()),
            code => Err(format!("{} returned {code}", stringify!($name))),
        }
    }};
}

fn main() -> Result<(), Box<dyn Error>> {
    let x: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let y = vec![0.5f32; x.len()];
    let mut sums = vec![0f32; x.len()];
    let (count, bytes) = (x.len() as u64, size_of_val(&*x));
    let mut name = [0u8; 64];

    // SAFETY: the functions have these parameters in the driver's documentation, and every pointer is to memory that lives to the end.
    unsafe {
        let driver = Library::new("libcuda.so.1")?;
        let (mut device, mut context) = (0, null_mut());
        call!(driver, cuInit(0 => c_uint))?;
        call!(driver, cuDeviceGet(&mut device => &mut c_int, 0 => c_int))?;
        call!(driver, cuDeviceGetName(name.as_mut_ptr() => *mut u8, 64 => c_int, device => c_int))?;
        call!(driver, cuDevicePrimaryCtxRetain(&mut context => &mut *mut c_void, device => c_int))?;
        call!(driver, cuCtxSetCurrent(context => *mut c_void))?;

        let (mut module, mut add) = (null_mut(), null_mut());
        call!(driver, cuModuleLoadData(&mut module => &mut *mut c_void, KERNEL.as_ptr() => *const u8))?;
        call!(driver, cuModuleGetFunction(&mut add => &mut *mut c_void, module => *mut c_void, c"add".as_ptr() => *const _))?;

        let mut arrays = [0u64; 3];
        for (array, content) in arrays.iter_mut().zip([Some(&x), Some(&y), None]) {
            call!(driver, cuMemAlloc_v2(array => &mut u64, bytes => usize))?;
            if let Some(content) = content {
                call!(driver, cuMemcpyHtoD_v2(*array => u64, content.as_ptr() => *const f32, bytes => usize))?;
            }
        }
        let mut parameters = [&arrays[0], &arrays[1], &arrays[2], &count].map(|value| from_ref(value).cast::<c_void>());
        call!(driver, cuLaunchKernel(
            add => *mut c_void,
            4 => c_uint, 1 => c_uint, 1 => c_uint,
            256 => c_uint, 1 => c_uint, 1 => c_uint,
            0 => c_uint,
            null_mut() => *mut c_void,
            parameters.as_mut_ptr() => *mut *const c_void,
            null() => *const *const c_void,
        ))?;
        call!(driver, cuCtxSynchronize())?;
        call!(driver, cuMemcpyDtoH_v2(sums.as_mut_ptr() => *mut f32, arrays[2] => u64, bytes => usize))?;
    }

    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default());
    let right = x.iter().zip(&y).zip(&sums).filter(|((x, y), sum)| *x + *y == **sum).count();
    println!("{name}: {right} sums, the last one {}", sums[sums.len() - 1]);
    if right == x.len() { Ok(()) } else { Err(format!("{} sums are wrong", x.len() - right).into()) }
}
