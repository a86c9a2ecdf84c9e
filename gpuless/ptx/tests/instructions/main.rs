//! The bits of single instructions: the same with every kind of vectors, and on a GPU.
#![allow(unsafe_code)] // kernels are given addresses of memory

mod gpu;
mod list;
mod software;
mod vectors;
