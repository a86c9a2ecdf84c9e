//! Reads PTX files and prints their definitions, the instructions that this crate lacks, and the time that reading took:
//! `cargo run --release -p gpuless-ptx --example inspect -- FILE...`
use ptx::code::{Body, Slots, contract, unsupported};
use ptx::link::Program;
use ptx::module::{Function, Variable};
use ptx::text::{DefinitionKind, Index, Unit};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut units = Vec::new();
    for path in std::env::args().skip(1) {
        units.push(Unit::new(&path, std::fs::read(&path)?)?);
    }
    let bytes: usize = units.iter().map(|unit| unit.text().len()).sum();
    let start = Instant::now();
    let indexed = units.iter().map(|unit| Ok((unit, Index::of(unit)?))).collect::<Result<Vec<_>, ptx::Error>>()?;
    let index_time = start.elapsed();
    let (mut functions, mut instructions, mut variables) = (0, 0, 0);
    let start = Instant::now();
    for (unit, index) in &indexed {
        for definition in index.definitions.iter().filter(|definition| definition.body.is_some()) {
            if definition.kind == DefinitionKind::Variable {
                Variable::of(unit, definition)?;
                variables += 1;
            } else {
                instructions += Function::of(unit, definition)?.instructions.len();
                functions += 1;
            }
        }
    }
    let read_time = start.elapsed();
    let mut missing: Vec<_> = Vec::new();
    for (unit, index) in &indexed {
        missing.extend(unsupported(unit, index)?);
    }
    missing.sort_by(|a, b| a.opcode.cmp(&b.opcode));
    missing.dedup_by(|later, first| {
        let same = later.opcode == first.opcode;
        first.count += if same { later.count } else { 0 };
        same
    });
    for missing in &missing {
        println!("{:>7} {}: {}", missing.count, missing.opcode, missing.first);
    }
    let start = Instant::now();
    let program = Program::link(units.clone(), 2)?;
    let link_time = start.elapsed();
    println!(
        "{} units, {bytes} bytes: index in {index_time:.1?}, linked by two threads in {link_time:.1?}",
        units.len()
    );
    println!("{} kernels", program.kernels().count());
    let (mut fused, mut frame) = (0, 0);
    for (unit, index) in &indexed {
        for definition in index.definitions.iter().filter(|definition| definition.body.is_some()) {
            if definition.kind != DefinitionKind::Variable {
                let mut body = Body::of(unit, &Function::of(unit, definition)?);
                fused += contract(&mut body);
                frame = frame.max(Slots::of(&body).map_or(0, |slots| slots.bytes));
            }
        }
    }
    println!("contraction fuses {fused} products; the largest frame has {frame} bytes for each lane");
    println!("{functions} functions with {instructions} instructions, {variables} variables: read in {read_time:.1?}");
    Ok(())
}
