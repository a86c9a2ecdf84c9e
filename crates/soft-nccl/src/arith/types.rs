//! The element types, each once: NCCL's code, and how it computes.
use super::fp8::Format;
use super::kernels::{self, Kernels};
use super::{Combine, Scalar};
use half::{bf16, f16};
use nccl_sys::ncclDataType_t;
use serde::{Deserialize, Serialize};

/// Four exponent bits, no infinity, largest 448.
pub(super) static E4M3: Format = Format::new(3, 7, 0x7e, None, || E4M3.make_tables());
/// Five exponent bits, with infinities, largest 57,344.
pub(super) static E5M2: Format = Format::new(2, 15, 0x7b, Some(0x7c), || E5M2.make_tables());

macro_rules! element_types {
    ($($variant:ident = $code:ident, $kind:ident($of:tt);)*) => {
        /// The element type of an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub(crate) enum Type {
            $($variant,)*
        }

        impl Type {
            pub(crate) fn of(dtype: ncclDataType_t) -> Option<Self> {
                match dtype {
                    $(ncclDataType_t::$code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn nccl(self) -> ncclDataType_t {
                match self {
                    $(Self::$variant => ncclDataType_t::$code,)*
                }
            }

            pub(super) fn kernels(self) -> &'static Kernels {
                match self {
                    $(Self::$variant => const { &kernels::$kind!($of) },)*
                }
            }
        }
    };
}

element_types! {
    I8 = Int8, integer(i8);
    U8 = Uint8, integer(u8);
    I32 = Int32, integer(i32);
    U32 = Uint32, integer(u32);
    I64 = Int64, integer(i64);
    U64 = Uint64, integer(u64);
    F16 = Float16, narrow(f16);
    F32 = Float32, native(f32);
    F64 = Float64, native(f64);
    Bf16 = Bfloat16, narrow(bf16);
    E4m3 = Float8e4m3, tiny(E4M3);
    E5m2 = Float8e5m2, tiny(E5M2);
}

impl Type {
    /// Bytes of one element.
    pub(crate) fn size(self) -> usize {
        self.kernels().size
    }

    pub(crate) fn name(self) -> &'static str {
        self.nccl().name().unwrap_or("?")
    }

    /// 1/n rounded to the type, by which an average multiplies each input; `None` for integers, which divide the sum.
    pub(crate) fn reciprocal(self, n: usize) -> Option<Scalar> {
        let exact = 1.0 / n as f64;
        self.nearest(exact, exact as f32)
    }

    /// The nearest element to a number, given in double and single precision; `None` for integers.
    pub(super) fn nearest(self, double: f64, single: f32) -> Option<Scalar> {
        (self.kernels().nearest)(double, single)
    }

    /// True for the 8-bit floats.
    pub(super) fn is_tiny_float(self) -> bool {
        self.size() == 1 && self.nearest(1.0, 1.0).is_some()
    }
}
