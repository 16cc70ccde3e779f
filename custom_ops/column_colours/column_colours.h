// Colours for the columns of a sparse matrix: columns of one colour have no row in common.
//
// No op: graphs never hold it. tfjac/jacobians/sparsity/colouring.py calls it while a graph is traced, and has the same in
// Python, with the same result.
#ifndef TFJAC_CUSTOM_OPS_COLUMN_COLOURS_H_
#define TFJAC_CUSTOM_OPS_COLUMN_COLOURS_H_

#include <cstdint>

// Gives each column a colour, from 0 on; a column without entries gets 0.
//
// starts_of_rows [rows + 1], columns_of [entries]: the matrix in compressed rows; starts_of_columns [columns + 1], rows_of
// [entries]: in compressed columns. Nothing is checked. most_constrained_first: next is the column with the most colours
// among its neighbours, of several the one with the most entries, of several the first (DSATUR); else in their order.
// colours [columns]. False where there is no memory.
extern "C" __attribute__((visibility("default"))) bool tfjac_column_colours(
    int64_t rows, int64_t columns, const int64_t* starts_of_rows, const int64_t* columns_of,
    const int64_t* starts_of_columns, const int64_t* rows_of, bool most_constrained_first, int32_t* colours);

#endif  // TFJAC_CUSTOM_OPS_COLUMN_COLOURS_H_
