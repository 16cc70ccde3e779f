// JacobianRows: factors to dense rows.
//
//     rows[n,m,ColumnOf(g,i,o)] = sum_t a[n,t,g,i] d[n,m,t,g,o]
//
// `rows` is [n, m, p], row by row, and shares no memory with the factors. Every element is written once, in an order of
// summation that does not depend on the number of threads: the same bits for any. Empty axes are legal; an empty t gives
// zeros.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_H_

#include "custom_ops/common/cpu/isa.h"
#include "custom_ops/common/factors.h"
#include "custom_ops/common/runtime.h"

namespace tfjac {

TFJAC_PER_ISA(
    // All rows, in parallel.
    template <typename T> bool JacobianRows(const Runtime& runtime, const Factors<T>& factors, T* rows);

    // The columns of factor f for the rows [row_begin, row_end) of J (row = n * m_size + m), to `out` with `ld` numbers
    // between rows; column f.column lands at out[0].
    template <typename T>
    void ExpandFactor(const Factor<T>& f, int64_t m_size, int64_t row_begin, int64_t row_end, T* out, int64_t ld);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_ROWS_H_
