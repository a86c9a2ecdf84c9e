//! Says which PTX a library carries, and writes it to a folder: `ptx LIBRARY [FOLDER]`.
use gpuless_cuda::fatbin::{FatBinaries, Kind};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let library = arguments.next().ok_or("which library?")?;
    let folder = arguments.next();
    let begin = Instant::now();
    let binaries = FatBinaries::open(&library)?;
    let headers = begin.elapsed();
    let mut kinds: BTreeMap<_, (usize, u64, u64)> = BTreeMap::new();
    for entry in binaries.entries() {
        let key = (entry.section.name(), entry.architecture, format!("{:?} {:?}", entry.kind, entry.compression()));
        let known = kinds.entry(key).or_default();
        *known = (known.0 + 1, known.1 + entry.stored_size, known.2.max(entry.text_size));
    }
    for ((section, architecture, kind), (count, bytes, largest)) in kinds {
        println!(
            "{section:15} sm_{architecture:<4} {kind:10} {count:4} entries, {bytes:11} bytes stored, largest {largest} decompressed"
        );
    }
    let linked = binaries.entries().iter().filter(|entry| entry.kind == Kind::Ptx).map(|entry| entry.options.as_str());
    println!("options: {:?}", linked.collect::<std::collections::BTreeSet<_>>());
    let threads = std::thread::available_parallelism()?.get();
    for threads in if threads == 1 { vec![1] } else { vec![1, threads] } {
        let begin = Instant::now();
        let texts = binaries.map_ptx(threads, |_, text| text.map(|text| text.len()));
        let bytes = texts.into_iter().sum::<Result<usize, _>>()?;
        println!("{bytes} bytes of PTX in {:?} on {threads} threads (headers: {headers:?})", begin.elapsed());
    }
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(&folder)?;
    let written = binaries.map_ptx(threads, |unit, text| -> Result<(), String> {
        let entry = unit.entry();
        let name = format!("{}_{:09x}.ptx", entry.section.name().trim_start_matches(['.', '_']), entry.offset);
        std::fs::write(folder.join(name), text.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    });
    Ok(written.into_iter().collect::<Result<(), String>>()?)
}
