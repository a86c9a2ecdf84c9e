//! The enums of NCCL's interface, open: a number without a name stays representable.
use std::ffi::c_int;

macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:expr, $text:expr;)* }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub c_int);

        #[allow(non_upper_case_globals)]
        impl $name {
            $($(#[$vdoc])* pub const $variant: Self = Self($value);)*
            /// All values this crate has a name for.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant),*];

            /// The scenario language's word for the value, `None` for a number without a name.
            pub const fn name(self) -> Option<&'static str> {
                match self { $(Self::$variant => Some($text),)* _ => None }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() { Some(text) => f.write_str(text), None => write!(f, concat!(stringify!($name), "({})"), self.0) }
            }
        }
    };
}

open_enum! {
    /// The result of a call.
    ncclResult_t {
        /// The call succeeded.
        Success = 0, "ok";
        /// A CUDA call failed.
        UnhandledCudaError = 1, "unhandled_cuda_error";
        /// A system call failed.
        SystemError = 2, "system_error";
        /// A bug in the library.
        InternalError = 3, "internal_error";
        /// An argument is out of range.
        InvalidArgument = 4, "invalid_argument";
        /// The call is not allowed here.
        InvalidUsage = 5, "invalid_usage";
        /// A peer is gone.
        RemoteError = 6, "remote_error";
        /// Non-blocking work is still in progress.
        InProgress = 7, "in_progress";
        /// A limit of time passed.
        Timeout = 8, "timeout";
    }
}
open_enum! {
    /// The element type of a buffer.
    ncclDataType_t {
        /// Signed 8-bit integer.
        Int8 = 0, "i8";
        /// Unsigned 8-bit integer.
        Uint8 = 1, "u8";
        /// Signed 32-bit integer.
        Int32 = 2, "i32";
        /// Unsigned 32-bit integer.
        Uint32 = 3, "u32";
        /// Signed 64-bit integer.
        Int64 = 4, "i64";
        /// Unsigned 64-bit integer.
        Uint64 = 5, "u64";
        /// IEEE half precision.
        Float16 = 6, "f16";
        /// IEEE single precision.
        Float32 = 7, "f32";
        /// IEEE double precision.
        Float64 = 8, "f64";
        /// The format bfloat16 (2.10).
        Bfloat16 = 9, "bf16";
        /// 8-bit float, 4 exponent bits (2.24).
        Float8e4m3 = 10, "f8e4m3";
        /// 8-bit float, 5 exponent bits (2.24).
        Float8e5m2 = 11, "f8e5m2";
    }
}
open_enum! {
    /// Reductions; numbers from 5 up are made by `ncclRedOpCreatePreMulSum`.
    ncclRedOp_t {
        /// Adds the elements.
        Sum = 0, "sum";
        /// Multiplies the elements.
        Prod = 1, "prod";
        /// Takes the greatest element.
        Max = 2, "max";
        /// Takes the smallest element.
        Min = 3, "min";
        /// Averages the elements (2.10).
        Avg = 4, "avg";
    }
}
open_enum! {
    /// The memory that holds a pre-multiplier.
    ncclScalarResidence_t {
        /// In device memory, read when the operation runs.
        Device = 0, "device";
        /// In host memory, read before the call returns.
        HostImmediate = 1, "host";
    }
}
open_enum! {
    /// The figures of `ncclCommMemStats` (2.29).
    ncclCommMemStat_t {
        /// Device memory that suspending would release, in bytes.
        GpuMemSuspend = 0, "gpu_mem_suspend";
        /// 1 while it is released.
        GpuMemSuspended = 1, "gpu_mem_suspended";
        /// Device memory that stays, in bytes.
        GpuMemPersist = 2, "gpu_mem_persist";
        /// All device memory that the library keeps account of, in bytes.
        GpuMemTotal = 3, "gpu_mem_total";
    }
}
