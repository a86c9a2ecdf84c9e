//! Kernels of our own run.
#![allow(unsafe_code)] // kernels are given addresses of the tests' memory

mod accesses;
mod altered;
mod delay;
mod device;
mod early;
mod kernels;
mod multimem;
mod pool;
mod shared;
mod turns;
mod work;
