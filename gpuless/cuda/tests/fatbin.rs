//! The PTX of libraries that are made here, and of damaged ones.
mod support;

use gpuless_cuda::fatbin::{Compression, FatBinaries, FatbinError, Kind, MAX_TEXT, Section};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use support::{Entry, Numbers, elf, fat_binary};

const LZ4: u64 = 0x2011;
const ZSTD: u64 = 0x8011;

fn text(words: &str) -> Vec<u8> {
    format!("//\n.version 8.7\n.target sm_90\n{}", words.repeat(200)).into_bytes()
}

/// A library with a unit for the device linker in LZ4, and whole ones in Zstandard and as they are.
fn library() -> Vec<u8> {
    let (one, two, three) = (text("one "), text("two "), text("three "));
    let (lz4, zstd) = (lz4_flex::block::compress(&one), compress_to_vec(&two[..], CompressionLevel::Fastest));
    let size = |text: &[u8]| text.len() as u64;
    let code = Entry { kind: 2, stored: b"machine code", ..Entry::default() };
    let older = Entry { architecture: 80, stored: b"older", ..Entry::default() };
    let linked =
        Entry { flags: LZ4, header: 72, options: "-v ", stored: &lz4, text_size: size(&one), ..Entry::default() };
    let mut whole =
        fat_binary(&[code, Entry { flags: ZSTD, stored: &zstd, text_size: size(&two), ..Entry::default() }, older]);
    whole.extend([0; 24]);
    whole.extend(fat_binary(&[code, Entry { kind: 0x40, ..code }]));
    whole.extend(fat_binary(&[Entry { stored: &three, ..Entry::default() }]));
    elf(&[(".text", b"code"), ("__nv_relfatbin", &fat_binary(&[code, linked])), (".nv_fatbin", &whole)])
}

fn trimmed(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned()
}

#[test]
fn text_comes_out_of_every_compression() {
    let binaries = FatBinaries::from_bytes(library()).unwrap();
    let entries: Vec<_> = binaries.ptx().map(|unit| (unit.entry().section, unit.entry().compression())).collect();
    assert_eq!(
        entries,
        [(Section::Linked, Compression::Lz4), (Section::Whole, Compression::Zstd), (Section::Whole, Compression::None)]
    );
    let texts: Vec<_> = binaries.ptx().map(|unit| trimmed(unit.text().unwrap())).collect();
    assert_eq!(texts, ["one ", "two ", "three "].map(|words| String::from_utf8(text(words)).unwrap()));
    for threads in [1, 2, 8] {
        let both = binaries.map_ptx(threads, |unit, text| (unit.entry().offset, trimmed(text.unwrap())));
        let places = binaries.ptx().map(|unit| unit.entry().offset);
        assert_eq!(both, places.zip(texts.clone()).collect::<Vec<_>>());
    }
}

#[test]
fn headers_say_what_an_entry_is() {
    let binaries = FatBinaries::from_bytes(library()).unwrap();
    let all: Vec<_> =
        binaries.entries().iter().map(|entry| (entry.fat_binary, entry.kind, entry.architecture)).collect();
    let places: Vec<_> = all.iter().map(|entry| entry.0).collect();
    assert_eq!((places[0], places[1]), (0, 0));
    assert!(places[2..].is_sorted() && places[2] == 0, "{places:?}");
    // By number, for what follows.
    let number = |place: u64| places[2..].chunk_by(|a, b| a == b).position(|group| group[0] == place).unwrap();
    let all: Vec<_> = all.iter().map(|entry| (number(entry.0), entry.1, entry.2)).collect();
    let (code, ptx) = (Kind::Elf, Kind::Ptx);
    let whole = [(0, code, 90), (0, ptx, 90), (0, ptx, 80), (1, code, 90), (1, Kind::Other(0x40), 90), (2, ptx, 90)];
    assert_eq!(all, [[(0, code, 90), (0, ptx, 90)].as_slice(), &whole].concat());
    let linked = &binaries.entries()[1];
    assert_eq!((linked.options.as_str(), linked.name.as_str(), linked.version), ("-v", "", (7, 8)));
    assert_eq!(linked.text_size, text("one ").len() as u64);
}

#[test]
fn a_library_is_slimmed_once_all_of_its_machine_code_is_zeros() {
    let slimmed = |bytes: &[u8]| FatBinaries::from_bytes(bytes.to_vec()).unwrap().is_slimmed().unwrap();
    let mut bytes = library();
    let places: Vec<_> = FatBinaries::from_bytes(bytes.clone()).unwrap().machine_code().collect();
    assert_eq!(places.len(), 3);
    assert!(!slimmed(&bytes));
    for (cut, place) in (1..).zip(places) {
        let place = place.start as usize..place.end as usize;
        assert_eq!(bytes[place.clone()].trim_ascii_end(), b"machine code\0\0\0\0");
        bytes[place].fill(0);
        assert_eq!(slimmed(&bytes), cut == 3);
    }
    let binaries = FatBinaries::from_bytes(bytes).unwrap();
    let texts: Vec<_> = binaries.ptx().map(|unit| trimmed(unit.text().unwrap())).collect();
    assert_eq!(texts, ["one ", "two ", "three "].map(|words| String::from_utf8(text(words)).unwrap()));
    // PTX alone was never anything else.
    assert!(!slimmed(&elf(&[(".nv_fatbin", &fat_binary(&[Entry { stored: b"ptx", ..Entry::default() }]))])));
}

#[test]
fn a_library_without_device_code_is_told_from_something_else() {
    let error = |bytes: &[u8]| FatBinaries::from_bytes(bytes.to_vec()).unwrap_err();
    assert!(matches!(error(&elf(&[(".text", b"code")])), FatbinError::NoDeviceCode));
    assert!(matches!(error(b""), FatbinError::NotElf(_)));
    assert!(matches!(
        error(b"a text that is longer than the header of an ELF file is, and is not one"),
        FatbinError::NotElf(_)
    ));
    let open = |path: &str| FatBinaries::open(path.as_ref()).unwrap_err().to_string();
    assert_eq!(open("/dev/zero"), "/dev/zero: it is not a regular file");
    assert!(open("/not/there").starts_with("/not/there: No such file"));
}

/// The texts of a library with this section, or the error in it.
fn texts(name: &str, section: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let binaries = FatBinaries::from_bytes(elf(&[(name, section)]));
    let texts = binaries.and_then(|binaries| binaries.ptx().map(|unit| unit.text()).collect());
    texts.map_err(|error: FatbinError| error.to_string())
}

#[test]
fn a_size_that_is_not_the_texts_is_refused() {
    let text = text("word ");
    let size = text.len() as u64;
    let (lz4, zstd) = (lz4_flex::block::compress(&text), compress_to_vec(&text[..], CompressionLevel::Fastest));
    let claim = |flags: u64, stored: &[u8], text_size: u64| {
        let entry = Entry { flags, stored, text_size, ..Entry::default() };
        let error = texts(".nv_fatbin", &fat_binary(&[entry])).expect_err("a wrong size");
        error.strip_prefix("device code in .nv_fatbin at 0x10: ").map(str::to_owned).ok_or(error)
    };
    let large = "its text has 268435457 bytes decompressed, more than 268435456";
    assert_eq!(claim(LZ4, &lz4, MAX_TEXT + 1).unwrap(), large);
    assert_eq!(claim(ZSTD, &zstd, MAX_TEXT + 1).unwrap(), large);
    let impossible = claim(LZ4, &lz4, MAX_TEXT).unwrap();
    assert_eq!(impossible, format!("268435456 bytes cannot come of {} bytes of LZ4", lz4.len()));
    let longer = format!("its header says {} bytes of text, and there are {size} or more", size + 1);
    assert_eq!(claim(LZ4, &lz4, size + 1).unwrap(), longer);
    assert_eq!(claim(ZSTD, &zstd, size + 1).unwrap(), longer);
    let damaged = claim(LZ4, &lz4, size - 1).unwrap();
    assert!(damaged.starts_with("its LZ4 is damaged: "), "{damaged}");
    let shorter = format!("its header says {} bytes of text, and there are {size} or more", size - 1);
    assert_eq!(claim(ZSTD, &zstd, size - 1).unwrap(), shorter);
    let damaged = claim(ZSTD, &lz4, size).unwrap();
    assert!(damaged.starts_with("its Zstandard is damaged: "), "{damaged}");
}

#[test]
fn a_header_that_does_not_fit_is_told_with_its_place() {
    let sound = fat_binary(&[Entry { stored: b"some PTX", ..Entry::default() }]);
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        change(&mut bytes);
        texts("__nv_relfatbin", &bytes).expect_err("it is damaged")
    };
    let damaged = |at: &str, what: &str| format!("device code in __nv_relfatbin at {at}: {what}");
    let magic = "a fat binary begins with 0xba55ed50, and here stands 0xba55ed07";
    assert_eq!(error(&|bytes| bytes[0] = 7), damaged("0x0", magic));
    assert_eq!(error(&|bytes| bytes[6] = 8), damaged("0x0", "a fat binary's header of 8 bytes"));
    assert_eq!(error(&|bytes| bytes[8] += 1), damaged("0x0", "a fat binary of 73 bytes in a section of 88"));
    assert_eq!(error(&|bytes| bytes[16 + 4] = 0), damaged("0x10", "an entry's header of 0 bytes"));
    assert_eq!(error(&|bytes| bytes[16 + 7] = 1), damaged("0x10", "an entry's header of 16777280 bytes"));
    assert_eq!(error(&|bytes| bytes[16 + 8] = 9), damaged("0x10", "an entry of 9 bytes runs past its fat binary"));
    assert_eq!(
        error(&|bytes| bytes[16 + 15] = 255),
        damaged("0x10", "an entry of 18374686479671623688 bytes runs past its fat binary")
    );
    assert_eq!(error(&|bytes| bytes[16 + 16] = 9), damaged("0x10", "9 compressed bytes in a payload of 8"));
    assert_eq!(error(&|bytes| bytes.extend([0, 0, 0, 1])), damaged("0x5b", "the section ends within a header"));
}

#[test]
fn ten_thousand_damaged_libraries_give_text_or_an_error() {
    let sound = library();
    let mut numbers = Numbers::new();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let mut bytes = sound.clone();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(bytes.len());
            let width = [1, 2, 4, 8][numbers.below(4)].min(bytes.len() - at);
            let value = numbers.value();
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        if numbers.below(8) == 0 {
            bytes.truncate(numbers.below(bytes.len()).max(1));
        }
        match FatBinaries::from_bytes(bytes) {
            Err(_) => refused += 1,
            Ok(binaries) => {
                for text in binaries.map_ptx(1, |_, text| text) {
                    *(if text.is_ok() { &mut read } else { &mut refused }) += 1;
                }
            }
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} texts, {refused} errors");
}
