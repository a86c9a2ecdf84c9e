//! Recognises names of the runtime, and maps a host stub's name to its kernel.

/// True for a function of the runtime's public interface, and for those that compilers call (`__cuda…`).
///
/// Others begin alike: `__cudart…` are the runtime's own, `.cold` and `.part` are parts of functions, and compilers put these two
/// into every unit: `__cudaRegisterLinkedBinary…` and `__cudaUnregisterBinaryUtil`.
pub(super) fn is_runtime(name: &str) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let units = name.starts_with("__cudaRegisterLinkedBinary") || name == "__cudaUnregisterBinaryUtil";
    let rest = name.strip_prefix("__").unwrap_or(name).strip_prefix("cuda");
    plain && !units && rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// The prefix that PTX adds to the name of a host stub with internal linkage. `None` if its name is the kernel's.
///
/// A kernel in an unnamed namespace belongs to its unit, and the unit's id is the namespace's name: `43_GLOBAL__N_` and an id of
/// 32 characters. In PTX it is `__nv_static_32_`, the id, `_`, and the host stub's name.
pub(super) fn static_prefix(name: &str) -> Option<String> {
    const SPACE: &str = "_GLOBAL__N_";
    let at = name.find(SPACE)?;
    let digits = name[..at].len() - name[..at].trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = name[at - digits..at].parse().ok()?;
    let id = name.get(at + SPACE.len()..at.checked_add(length)?)?;
    // Other compilers write a number there for unnamed namespaces.
    id.starts_with('_').then(|| format!("__nv_static_{}_{id}_", id.len()))
}

/// Names of functions by their address.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    /// All names, one after the other.
    names: String,
    /// Address and place of a name, by address.
    places: Vec<(usize, usize, usize)>,
}

impl Kernels {
    /// Takes functions' addresses and host names.
    pub(super) fn new<'a>(functions: impl Iterator<Item = (usize, &'a str)>) -> Self {
        let mut kernels = Self::default();
        for (address, name) in functions {
            let from = kernels.names.len();
            kernels.names.push_str(&static_prefix(name).unwrap_or_default());
            kernels.names.push_str(name);
            kernels.places.push((address, from, kernels.names.len()));
        }
        kernels.places.sort_unstable();
        kernels
    }

    pub(super) fn at(&self, address: usize) -> Option<&str> {
        let index = self.places.partition_point(|place| place.0 < address);
        let (_, from, to) = self.places.get(index).filter(|place| place.0 == address)?;
        Some(&self.names[*from..*to])
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &str)> {
        self.places.iter().map(|(address, from, to)| (*address, &self.names[*from..*to]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_runtime_are_told_from_those_that_begin_alike() {
        for name in [
            "cudaMalloc",
            "cudaMemcpyAsync_ptsz",
            "cudaLaunchKernelExC",
            "__cudaLaunchKernel",
            "__cudaUnregisterFatBinary",
        ] {
            assert!(is_runtime(name), "{name}");
        }
        let others = [
            "cudart123",
            "__cudart123",
            "cuda",
            "cudaMalloc.cold",
            "cuMemAlloc",
            "_Z10cudaMallocIvE",
            "__cudaUnregisterBinaryUtil",
        ];
        for name in others.into_iter().chain(["__cudaRegisterLinkedBinary_0a1b2c3d_7_test_cu_01", "___cudaMalloc", ""])
        {
            assert!(!is_runtime(name), "{name}");
        }
    }

    #[test]
    fn a_kernel_of_an_unnamed_namespace_has_its_units_id() {
        let host = "_ZN43_GLOBAL__N__b4148644_10_onerank_cu_fdf4799013oneRankReduceI13FuncPreMulSumIfEEEvPvS3_mmb";
        let kernels = Kernels::new([(16, host), (8, "_Z3addv")].into_iter());
        assert_eq!(kernels.at(8), Some("_Z3addv"));
        let name = format!("__nv_static_32__b4148644_10_onerank_cu_fdf47990_{host}");
        assert_eq!(kernels.at(16), Some(name.as_str()));
        assert_eq!([kernels.at(7), kernels.at(9), kernels.at(17)], [None; 3]);
        assert_eq!(kernels.all().map(|(address, _)| address).collect::<Vec<_>>(), [8, 16]);
    }

    #[test]
    fn names_that_only_look_like_an_unnamed_namespace_stay() {
        for name in [
            "_ZN12_GLOBAL__N_13fooEv",
            "_GLOBAL__N_",
            "9999999999999999999999_GLOBAL__N__a",
            "_ZN18446744073709551615_GLOBAL__N__a",
            "_ZN999_GLOBAL__N__a",
            "_ZN3_GLOBAL__N__a",
        ] {
            assert_eq!(static_prefix(name), None, "{name}");
        }
    }
}
