//! The faults. A class may have several; one entry each, and the hooks name the entries' constants.
use super::{Entry, Fault};

/// Makes the constants and the table: name of the constant, id, what goes wrong, and what kind of scenario shows it.
macro_rules! faults {
    ($($name:ident, $id:literal: $text:literal; $shown_by:literal)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Number { $($name),* }

        /// The faults' names for the places that hold them.
        #[allow(dead_code)]
        pub(crate) mod named {
            use super::{Fault, Number};
            $(#[doc = $text] pub(crate) const $name: Fault = Fault(Number::$name as u8);)*
        }

        /// All faults, in the order of their ids.
        pub const TABLE: &[Entry] = &[$(Entry { id: $id, text: $text, shown_by: $shown_by }),*];
    };
}

faults! {
    F01, "F01": "work is cut in equal parts and the remainder is never written";
        "a count that is no multiple of 2 to 64"
    F02, "F02": "only whole packs of 16 bytes are processed";
        "a count whose bytes are no multiple of 16"
    F03, "F03": "the last pack of 16 bytes is written in full, past the buffer's end";
        "a small count; guards on both sides of every buffer are looked at anyway"
    F04, "F04": "elements behind the last whole pack are combined with another operator";
        "the same operation over an odd count, with values that tell operators apart"
    F05, "F05": "a pointer that is not aligned to 16 bytes is rounded down";
        "`offset = 1`"
    F06, "F06": "byte offsets are kept in 16 bits, so that blocks wrap onto the start";
        "more than 64 KiB in one buffer, with values that depend on the index"
    F07, "F07": "every slice of a chunk but the first is written to the first one's place";
        "a count of several slices, with values that depend on the index"
    F08, "F08": "sender and receiver cut the data differently once more than one buffer is in flight";
        "more than a whole step buffer, with values that depend on the index"
    F09, "F09": "at the wrap of the step buffer one chunk is taken twice and one never";
        "more than eight chunks, with values that depend on the index"
    F10, "F10": "what an operation leaves in the step buffer is delivered by the next, shorter one";
        "a long operation, then a short one with other values"
    F11, "F11": "a message is accepted while the second half of it is still the one before";
        "the same operation several times with changing data"
    F12, "F12": "the input is read before what stands earlier on the stream has written it";
        "a map, an all_reduce of its result, another map, without waits"
    F13, "F13": "the stream goes on before the last chunk is written";
        "a map or another operation that reads the output at once"
    F14, "F14": "the root is ignored: rank 0 is it";
        "root 1, and the last rank as the root"
    F15, "F15": "a root or peer inside a sub-communicator is taken as a rank of the world";
        "a sub-communicator whose numbers differ from the world's, with a root or a peer"
    F16, "F16": "reduce and gather write into the output of ranks that are not the root";
        "reduce and gather whose other ranks have an output buffer of their own"
    F17, "F17": "blocks lie in the order of a ring, not of the ranks";
        "all_gather, all_to_all, gather or reduce_scatter with a different value in every block"
    F18, "F18": "the rank's own block is taken to be in place already and skipped";
        "an out-of-place operation, also with one rank"
    F19, "F19": "in place, the input is overwritten before it was read";
        "in place with three ranks or more"
    F20, "F20": "an out-of-place operation changes its input";
        "any out-of-place reduction: inputs are compared afterwards"
    F21, "F21": "one rank's contribution is left out";
        "values such as 2^rank, in which every rank counts"
    F22, "F22": "one rank counts twice where the ranks are no power of two";
        "3, 5, 6 or 7 ranks with values such as 2^rank"
    F23, "F23": "another operator: prod adds, min is max for unsigned and negative values, avg does not divide";
        "every reduction with values that tell all five apart"
    F24, "F24": "avg divides at the wrong place, or by the wrong number";
        "avg with three ranks, in sub-communicators, over several chunks"
    F25, "F25": "integer avg goes through a reciprocal or a narrow float";
        "avg of integers whose sums exceed 2^24"
    F26, "F26": "premul_sum's scalar is misread, taken from rank 0, or applied at every hop";
        "premul_sum with 0.5 in bf16, and with another scalar on every rank"
    F27, "F27": "partial sums are rounded below the type";
        "one large and many small addends, in every floating-point type"
    F28, "F28": "every rank sums in an order of its own";
        "all_reduce of random data in three ranks or more"
    F29, "F29": "NaN, signed zeros, subnormals or fp8's largest values are lost";
        "bit patterns through broadcast and all_gather, NaN through min and max"
    F30, "F30": "the first operation's type, operator or root holds for the whole group";
        "a group of operations of two types, two operators, two roots"
    F31, "F31": "an operation of a large group is lost or done twice";
        "groups of 2, 5 and 65 operations"
    F32, "F32": "two messages between the same two ranks are matched in the wrong order";
        "two sends of equal size with different data in one group"
    F33, "F33": "a message to the own rank is lost";
        "send and recv to oneself beside other traffic"
    F34, "F34": "zero elements: the rank skips the next operation as well";
        "zero elements, then an ordinary operation"
    F35, "F35": "traffic of one communicator arrives in another";
        "operations on a communicator and its children in turns"
    F36, "F36": "split forgets the keys, or their ties, or lets ranks without a colour in";
        "keys in reverse and equal keys, then an all_gather of the old ranks"
    F37, "F37": "a counter of eight bits wraps: a stale message matches";
        "300 tiny operations with changing data"
    F38, "F38": "with many requests in flight one is dropped";
        "more than 32 operations before the first wait"
    F39, "F39": "ranks decide by facts of their own how the data are cut";
        "in place on one rank only, or with another variable on one rank"
    F40, "F40": "a failed step counts as done, or spoils the next call";
        "a case that must fail, and a good operation after an error"
}
