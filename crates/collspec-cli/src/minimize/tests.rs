use super::document::{Document, Part};
use collspec_core::scenario::{self, SourceFile};
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_document_is_written_as_people_write_it() {
    let text = "description = 'a \"b\"'\nworld_size = 2\nenv.NCCL_ALGO = \"Ring\"\ninputs.x = { count = 1, each = \"rank\" }\n\
                steps = [\n  { op = \"group\", steps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }] },\n]\nexpect.y = [[1.0], [nan]]\n";
    let document = Document::read(text);
    assert_eq!(document.to_string(), text);
    let key = |key: &str| Part::Key(key.to_owned());
    assert!(!document.without(&[key("env"), key("NCCL_ALGO")]).to_string().contains("env"));
    let without = document.without(&[key("steps"), Part::Index(0)]);
    assert!(without.to_string().contains("steps = [\n]\n"));
    // NaN is not equal to itself.
    assert_eq!(document.without(&[key("no"), key("such")]).to_string(), text);
}

/// Every file of the corpus means the same after it was read as a document and written.
#[test]
fn documents_of_the_corpus_keep_their_meaning() {
    fn check(folder: &Path, count: &mut usize) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check(&path, count);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                let text = fs::read_to_string(&path).unwrap();
                let document = Document::read(&text);
                assert_eq!(
                    Document::read(&document.to_string()).to_string(),
                    document.to_string(),
                    "{}",
                    path.display()
                );
                let names = |text: String| {
                    let file = Arc::new(SourceFile { path: path.display().to_string(), text: text.into() });
                    scenario::parse(&file, "a")
                        .map(|cases| cases.into_iter().map(|case| case.name).collect::<Vec<_>>())
                        .ok()
                };
                let sorted = |names: Option<Vec<String>>| {
                    names.map(|mut names| {
                        names.sort_unstable();
                        names.len()
                    })
                };
                assert_eq!(sorted(names(document.to_string())), sorted(names(text)), "{}", path.display());
                *count += 1;
            }
        }
    }
    let mut count = 0;
    for folder in ["documented", "language", "regressions", "negative", "laws"] {
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder), &mut count);
    }
    assert!(count > 250, "{count} files");
}
