#include "kernels/table_impl.h"

namespace fasteep {

constinit const KernelTable kAvx512Bf16Table = this_units_table();

}  // namespace fasteep
