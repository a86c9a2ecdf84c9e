//! Control flow, and instructions that threads execute together (PTX ISA, 9.7.12 and 9.7.13).
use super::super::op::{Op, Reduction, ShuffleMode, Source, VoteMode, Width};
use super::Refusal;
use super::arithmetic::last_type;
use super::operands::Operands;
use crate::module::{Name, Operand, Type};

pub fn decode(name: &str, words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    match name {
        "bra" => branch(words, of),
        "call" => call(words, of),
        "ret" | "exit" | "trap" => {
            of.count(0)?;
            Ok(match name {
                "ret" => Op::Return,
                "exit" => Op::Exit,
                _ => Op::Trap,
            })
        }
        "bar" | "barrier" => barrier(words, of),
        "vote" => vote(words, of),
        "shfl" => shuffle(words, of),
        "match" => match_any(words, of),
        "activemask" if words == ["b32"] => {
            of.count(1)?;
            Ok(Op::ActiveMask { to: of.to(0, Width::W32)? })
        }
        "fence" | "membar" => fence(words, of),
        // They affect only time, or the contents of a cache.
        "nanosleep" | "griddepcontrol" | "prefetch" | "discard" | "applypriority" => Ok(Op::Nothing),
        _ => Err("this instruction is not known".into()),
    }
}

fn branch(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    if !matches!(words, [] | ["uni"]) {
        return Err("this branch is not known".into());
    }
    of.count(1)?;
    match of.get(0)? {
        Operand::Label(target) => Ok(Op::Branch { target: *target }),
        _ => Err("a branch leads to a label".into()),
    }
}

/// `call (results), target, (arguments), prototype`, each part but the target only where there is one.
fn call(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    if !matches!(words, [] | ["uni"]) {
        return Err("this call is not known".into());
    }
    let names = |list: &[Operand]| -> Result<Vec<Name>, Refusal> {
        let name = |operand: &Operand| match operand {
            Operand::Symbol(name, 0) => Ok(name.clone()),
            _ => Err("a call takes and gives parameters by name".into()),
        };
        list.iter().map(name).collect()
    };
    let mut rest = of.all;
    let list = |rest: &mut &[Operand]| match rest.split_first() {
        Some((Operand::List(list), tail)) => {
            *rest = tail;
            names(list)
        }
        _ => Ok(Vec::new()),
    };
    let results = list(&mut rest)?;
    let Some((target, mut rest)) = rest.split_first() else { return Err("the call has no target".into()) };
    let arguments = list(&mut rest)?;
    // The rest is a prototype, which repeats the target's parameters.
    if rest.len() > 1 {
        return Err("this call has too many operands".into());
    }
    Ok(Op::Call { target: of.source(target, Type::U64)?, results, arguments })
}

fn barrier(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    // It has no effect here, and comes before or after the type.
    let words: Vec<&str> = words.iter().copied().filter(|word| *word != "aligned").collect();
    match &words[..] {
        ["warp", "sync"] => {
            of.count(1)?;
            Ok(Op::WarpBarrier { members: of.from(0, Type::U32)? })
        }
        ["sync"] | ["cta", "sync"] => {
            let threads = if of.all.len() == 2 { Some(of.from(1, Type::U32)?) } else { None };
            of.count(1 + usize::from(threads.is_some()))?;
            Ok(Op::Barrier { number: of.from(0, Type::U32)?, threads, reduce: None })
        }
        ["red", mode, kind] => {
            let (mode, width) = match (*mode, *kind) {
                ("and", "pred") => (VoteMode::All, Width::Predicate),
                ("or", "pred") => (VoteMode::Any, Width::Predicate),
                ("popc", "u32") => (VoteMode::Count, Width::W32),
                _ => return Err("this barrier is not known".into()),
            };
            let threads = if of.all.len() == 4 { Some(of.from(2, Type::U32)?) } else { None };
            of.count(3 + usize::from(threads.is_some()))?;
            let (predicate, inverted) = of.predicate(of.all.len() - 1)?;
            let reduce = Some(Reduction { mode, to: of.to(0, width)?, predicate, inverted });
            Ok(Op::Barrier { number: of.from(1, Type::U32)?, threads, reduce })
        }
        _ => Err("this barrier is not known".into()),
    }
}

fn vote(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let (mode, width) = match words {
        ["sync", "all", "pred"] => (VoteMode::All, Width::Predicate),
        ["sync", "any", "pred"] => (VoteMode::Any, Width::Predicate),
        ["sync", "uni", "pred"] => (VoteMode::Uniform, Width::Predicate),
        ["sync", "ballot", "b32"] => (VoteMode::Ballot, Width::W32),
        _ => return Err("this vote is not known".into()),
    };
    of.count(3)?;
    let (predicate, inverted) = of.predicate(1)?;
    Ok(Op::Vote { mode, to: of.to(0, width)?, predicate, inverted, members: of.from(2, Type::U32)? })
}

fn shuffle(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let mode = match words {
        ["sync", "idx", "b32"] => ShuffleMode::Idx,
        ["sync", "up", "b32"] => ShuffleMode::Up,
        ["sync", "down", "b32"] => ShuffleMode::Down,
        ["sync", "bfly", "b32"] => ShuffleMode::Bfly,
        _ => return Err("this shuffle is not known".into()),
    };
    of.count(5)?;
    let (to, inside) = match of.get(0)? {
        Operand::Pair(pair) => (of.target(&pair.0, Width::W32)?, of.target(&pair.1, Width::Predicate)?),
        one => (of.target(one, Width::W32)?, None),
    };
    let read = |at| -> Result<Source, Refusal> { of.from(at, Type::B32) };
    Ok(Op::Shuffle { mode, to, inside, a: read(1)?, by: read(2)?, clamp: read(3)?, members: read(4)? })
}

fn match_any(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    let (ty, words) = last_type(words)?;
    if words != ["any", "sync"] || !matches!(ty, Type::B32 | Type::B64) {
        return Err("this match is not known".into());
    }
    of.count(3)?;
    Ok(Op::MatchAny { ty, to: of.to(0, Width::W32)?, a: of.from(1, ty)?, members: of.from(2, Type::U32)? })
}

fn fence(words: &[&str], of: &Operands<'_>) -> Result<Op, Refusal> {
    of.count(0)?;
    let known = |word: &&str| {
        matches!(
            *word,
            "sc" | "acq_rel"
                | "acquire"
                | "release"
                | "sys"
                | "gl"
                | "gpu"
                | "cta"
                | "cluster"
                | "proxy"
                | "alias"
                | "async"
        ) || word.starts_with("shared::")
            || *word == "global"
    };
    // A cluster has one block here. `proxy.alias` orders accesses to one memory by different addresses, which other blocks may use.
    let of_block = words.iter().any(|word| matches!(*word, "cta" | "cluster"));
    let only_block = of_block || words.contains(&"proxy") && !words.contains(&"alias");
    if words.iter().all(known) { Ok(Op::Fence { only_block }) } else { Err("this fence is not known".into()) }
}
