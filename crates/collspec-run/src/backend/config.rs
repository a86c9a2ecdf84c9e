//! A communicator's configuration as NCCL's structure.
use super::CallError;
use collspec_core::ops::ConfigValue;
use nccl_sys::{ConfigAccess, ConfigField, ncclConfig_t, release};
use std::ffi::{CString, c_int, c_uint};

/// The structure and the texts that it points to.
pub(super) struct CommConfig {
    inner: ncclConfig_t,
    _texts: Vec<CString>,
}

impl CommConfig {
    /// A configuration with these fields; all others stay unset.
    ///
    /// # Errors
    ///
    /// A field that NCCL does not have, or a value that does not fit it.
    pub fn new(version: i32, fields: &[(String, ConfigValue)]) -> Result<Self, CallError> {
        let mut inner = ncclConfig_t::unset(c_uint::try_from(version).unwrap_or(0));
        let mut texts = Vec::new();
        for (name, value) in fields {
            let wrong = |why| CallError::Config { field: name.clone(), why };
            let field = ConfigField::find(name).ok_or_else(|| wrong("unknown"))?;
            // An older library would not look at the field: the case would test something else than it says.
            if release(field.since).is_some_and(|code| version < code) {
                return Err(wrong("this release of NCCL does not have it yet"));
            }
            match (field.access, value) {
                (ConfigAccess::Int(field), ConfigValue::Int(v)) => {
                    *field(&mut inner) = c_int::try_from(*v).map_err(|_| wrong("out of range"))?;
                }
                (ConfigAccess::Int(_), ConfigValue::Text(_)) => return Err(wrong("expected a number")),
                (ConfigAccess::Text(field), ConfigValue::Text(text)) => {
                    let text = CString::new(text.as_str()).map_err(|_| wrong("expected a text without zero bytes"))?;
                    *field(&mut inner) = text.as_ptr();
                    texts.push(text);
                }
                (ConfigAccess::Text(_), ConfigValue::Int(_)) => return Err(wrong("expected a text")),
            }
        }
        Ok(Self { inner, _texts: texts })
    }

    pub fn as_mut(&mut self) -> *mut ncclConfig_t {
        &mut self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_by_name_and_others_stay_unset() {
        let fields =
            [("minCTAs".to_owned(), ConfigValue::Int(2)), ("commName".to_owned(), ConfigValue::Text("a".into()))];
        let config = CommConfig::new(23007, &fields).unwrap();
        assert_eq!(config.inner.min_ctas, 2);
        assert_eq!(config.inner.max_ctas, nccl_sys::NCCL_CONFIG_UNDEF_INT);
        assert!(!config.inner.comm_name.is_null() && config.inner.net_name.is_null());
    }

    #[test]
    fn every_field_of_nccls_can_be_set() {
        for field in ncclConfig_t::FIELDS {
            let value = match field.access {
                ConfigAccess::Int(_) => ConfigValue::Int(1),
                ConfigAccess::Text(_) => ConfigValue::Text("a".into()),
            };
            assert!(CommConfig::new(23203, &[(field.name.to_owned(), value)]).is_ok(), "{}", field.name);
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (name, value) in [
            ("minCTAs", ConfigValue::Int(1 << 40)),
            ("minCTAs", ConfigValue::Text("2".into())),
            ("netName", ConfigValue::Int(1)),
            ("nonsense", ConfigValue::Int(1)),
            ("nChannelsPerNetPeer", ConfigValue::Int(1)),
        ] {
            let error = CommConfig::new(22705, &[(name.to_owned(), value)]).err().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
