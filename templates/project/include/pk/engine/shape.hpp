// What a call is given, checked: sizes in their ranges, and matrices that the kernel can read. Messages say
// the argument as the caller knows it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "pk/engine/versioned.hpp"
#include "pk/lcsc/config.hpp"

namespace pk::engine {

// A size of the spec: one number, or a range (`field` of the arguments says which). `split`: every rank has
// an equal part of it.
struct Dim {
    const char* name;
    const char* field;  // nullptr: fixed
    std::uint32_t first, last;
    bool split;
};

// A matrix of the caller; name nullptr: this kernel has none of it.
struct Matrix {
    const char* name = nullptr;
    const void* data = nullptr;
    std::uint64_t stride = 0;  // elements; 0: dense
};

// The arguments of a run, whatever their names in the spec. All sizes are whole, as the spec has them.
struct Call {
    std::uint32_t m = 0, n = 0, k = 0;
    Matrix rows, weight, up, bias, residual, gathered, output;
};

// Sizes of this rank's product.
struct Sizes {
    std::uint32_t m, n, k;
};

inline constexpr std::uint32_t elements_of_16_bytes = 8;

// The part of each rank.
inline std::uint32_t part_of(const Dim& dim, std::uint32_t size, std::uint32_t world, std::uint32_t multiple,
                             const std::string& place) {
    const std::string name = dim.field == nullptr ? std::string("the size ") + dim.name : place + dim.field;
    if (size < dim.first || size > dim.last) {
        fail(Status::invalid_argument, name, " is ", size, ", expected ", dim.first, " to ", dim.last);
    }
    const std::uint32_t unit = dim.split ? multiple * world : multiple;
    if (size % unit != 0) {
        const std::string why = dim.split ? " (each rank has an equal part of it" : " (";
        fail(Status::invalid_argument, name, " is ", size, ", expected a multiple of ", unit, why,
             dim.split && multiple > 1 ? ", and " : "",
             multiple > 1 ? "rows of matrices are multiples of 16 bytes)" : ")");
    }
    return dim.split ? size / world : size;
}

template <class Program>
Sizes sizes_of(std::uint32_t m, std::uint32_t n, std::uint32_t k, std::uint32_t world,
               const std::string& place) {
    return {part_of(Program::m, m, world, 1, place),
            part_of(Program::n, n, world, elements_of_16_bytes, place),
            part_of(Program::k, k, world, elements_of_16_bytes, place)};
}

// The largest that a call may ask for.
template <class Program>
Sizes largest_sizes(std::uint32_t world) {
    const auto part = [&](const Dim& dim) { return dim.split ? dim.last / world : dim.last; };
    return {part(Program::m), part(Program::n), part(Program::k)};
}

// An empty matrix needs no memory. Returns the stride.
inline std::uint32_t checked_matrix(const Matrix& matrix, std::uint32_t rows, std::uint32_t columns) {
    const std::string name = std::string("arguments.") + matrix.name;
    const auto address = reinterpret_cast<std::uintptr_t>(matrix.data);
    if (rows != 0) require_pointer(matrix.data, name);
    if (address % 16 != 0) {
        fail(Status::invalid_argument, name, " is the address ", matrix.data, ", expected a multiple of 16");
    }
    if (matrix.stride == 0) return columns;
    static constexpr std::uint64_t longest = std::numeric_limits<std::int32_t>::max() / 8 * 8;
    if (matrix.stride < columns || matrix.stride > longest || matrix.stride % elements_of_16_bytes != 0) {
        fail(Status::invalid_argument, name, "_stride is ", matrix.stride, ", expected 0 (dense) or ",
             "a multiple of ", elements_of_16_bytes, " elements from ", columns, " (a row) to ", longest);
    }
    return static_cast<std::uint32_t>(matrix.stride);
}

// What a matrix covers; strides in elements.
struct Extent {
    const Matrix& matrix;
    std::uint64_t rows, columns, stride;

    std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(matrix.data); }
    std::uintptr_t end() const { return begin() + (rows == 0 ? 0 : ((rows - 1) * stride + columns) * 2); }
};

// The output has no memory in common with what is read; with `in_place` it may be the same.
inline void check_apart(const Extent& output, const Extent& input, bool in_place = false) {
    if (input.matrix.name == nullptr || output.end() <= input.begin() || input.end() <= output.begin())
        return;
    if (in_place && output.begin() == input.begin()) return;
    fail(Status::invalid_argument, "arguments.", output.matrix.name, " and arguments.", input.matrix.name,
         " have memory in common, expected ",
         in_place ? "one and the same matrix, or two apart" : "two apart");
}

// Strides, in elements.
struct Strides {
    std::uint32_t rows, weight, up, residual, gathered, output;
};

// `own`: rows of this rank's part of what is sharded by rows.
template <class Program>
Strides checked_matrices(const Call& call, const Sizes& sizes, std::uint32_t own) {
    using C = typename Program::Config;
    const std::uint32_t out_rows = C::reduce == lcsc::Reduce::scatter ? own : sizes.m;
    Strides strides{};
    strides.rows = checked_matrix(call.rows, C::gather ? own : sizes.m, sizes.k);
    strides.weight = checked_matrix(call.weight, sizes.n, sizes.k);
    strides.up = strides.weight;
    if constexpr (C::silu_mul) strides.up = checked_matrix(call.up, sizes.n, sizes.k);
    strides.output = checked_matrix(call.output, out_rows, sizes.n);
    const Extent output{call.output, out_rows, sizes.n, strides.output};
    const Extent rows{call.rows, C::gather ? own : sizes.m, sizes.k, strides.rows};
    const Extent weight{call.weight, sizes.n, sizes.k, strides.weight};
    const Extent up{C::silu_mul ? call.up : Matrix{}, sizes.n, sizes.k, strides.up};
    for (const Extent& input : {rows, weight, up}) check_apart(output, input);
    if constexpr (C::bias) {
        checked_matrix(call.bias, 1, sizes.n);
        check_apart(output, {call.bias, 1, sizes.n, sizes.n});
    }
    if constexpr (C::residual) {
        strides.residual = checked_matrix(call.residual, out_rows, sizes.n);
        // In place: who writes an element has read it before. Peers write to the output of an all-reduce too,
        // but rows that they own, of which this rank does not read the residual.
        check_apart(output, {call.residual, out_rows, sizes.n, strides.residual},
                    strides.residual == strides.output);
    }
    if constexpr (C::keep_rows) {
        strides.gathered = checked_matrix(call.gathered, sizes.m, sizes.k);
        const Extent gathered{call.gathered, sizes.m, sizes.k, strides.gathered};
        check_apart(output, gathered);
        for (const Extent& input : {rows, weight, up}) check_apart(gathered, input);
        if constexpr (C::bias) check_apart(gathered, {call.bias, 1, sizes.n, sizes.n});
        if constexpr (C::residual)
            check_apart(gathered, {call.residual, out_rows, sizes.n, strides.residual});
    }
    return strides;
}

}  // namespace pk::engine
