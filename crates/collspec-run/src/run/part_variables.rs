//! The variables of a part, for a process that starts it on request of the leading process. The leader can have it load the NCCL
//! libraries that this process was started with, and nothing else.
use super::Backend;
use super::gpus::LOADER_PATH;
use crate::child::{DEVICE_OFFSET, LIBRARY, SOFTWARE_GPUS};
use crate::cluster::is_harmless;
use collspec_core::scenario::AllowEnv;
use std::path::Path;

/// The variables that the command line of a process allows its parts.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// The backends that parts may use.
    pub backends: Vec<Backend>,
    /// Variables that scenario files may set.
    pub env: AllowEnv,
}

impl Allowed {
    /// The variables for a part, given those that the leader requests.
    ///
    /// # Errors
    ///
    /// A variable that this process does not accept from others; the text names it.
    pub fn variables(&self, wanted: &[(String, String)]) -> Result<Vec<(String, String)>, String> {
        let mut all = Vec::with_capacity(wanted.len() + 1);
        let on_software_gpus = wanted.iter().any(|(name, _)| name == SOFTWARE_GPUS);
        for (name, value) in wanted {
            // A library may be available on GPUs and on software GPUs; a part runs it the way this process does.
            let fits = |backend: &&Backend| {
                backend.library() == Some(Path::new(value)) && backend.has_software_gpus() == on_software_gpus
            };
            let backend = self.backends.iter().find(fits);
            let taken = match name.as_str() {
                LIBRARY => backend.is_some(),
                // Refused together with its library, if that does not run on them.
                SOFTWARE_GPUS => wanted.iter().any(|(name, _)| name == LIBRARY),
                DEVICE_OFFSET => value.parse::<u32>().is_ok(),
                name => is_harmless(name, value, &self.env),
            };
            if !taken {
                return Err(format!(
                    "{name}={value:?} is not taken from the leading process, because it could load code or write a file"
                ));
            }
            all.push((name.clone(), value.clone()));
            // The folders that the loader searches are those of this process.
            let own = backend.filter(|_| name == LIBRARY).map(|backend| backend.env()).unwrap_or_default();
            all.extend(own.into_iter().filter(|(name, _)| name == LOADER_PATH));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Driver;

    #[test]
    fn parts_load_what_their_own_process_was_started_with() {
        let library = Backend::Nccl { library: "/lib/libnccl.so.2".into(), driver: Driver::Folder("/driver".into()) };
        let in_software = Backend::Nccl { library: "/lib/slim.so.2".into(), driver: Driver::Software };
        let allowed = Allowed { backends: vec![Backend::Soft, library, in_software], env: AllowEnv::default() };
        let variables = |name: &str, value: &str| allowed.variables(&[(name.to_owned(), value.to_owned())]);
        let on_software_gpus = |library: &str| {
            allowed.variables(&[(LIBRARY.to_owned(), library.to_owned()), (SOFTWARE_GPUS.to_owned(), "1".to_owned())])
        };
        assert!(on_software_gpus("/lib/slim.so.2").is_ok());
        assert!(on_software_gpus("/lib/libnccl.so.2").unwrap_err().starts_with(LIBRARY), "it was started on GPUs");
        let own = variables(LIBRARY, "/lib/libnccl.so.2").unwrap();
        assert_eq!((own[0].0.as_str(), own[1].0.as_str()), (LIBRARY, LOADER_PATH));
        assert!(own[1].1.starts_with("/driver"), "{own:?}");
        assert_eq!(variables("NCCL_ALGO", "Tree").unwrap().len(), 1);
        for (name, value) in [
            (LIBRARY, "/tmp/other.so"),
            (LIBRARY, "/lib/slim.so.2"),
            (SOFTWARE_GPUS, "1"),
            (LOADER_PATH, "/tmp"),
            ("LD_PRELOAD", "/tmp/other.so"),
            ("NCCL_NET_PLUGIN", "other"),
            ("COLLSPEC_PROBE", "1:/tmp/other.so"),
            (DEVICE_OFFSET, "x"),
        ] {
            let words = variables(name, value).unwrap_err();
            assert!(words.starts_with(&format!("{name}=")), "{words}");
        }
    }
}
