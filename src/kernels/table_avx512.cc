#include "kernels/table_impl.h"

namespace fasteep {

constinit const KernelTable kAvx512Table = this_units_table();

}  // namespace fasteep
