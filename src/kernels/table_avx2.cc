#include "kernels/table_impl.h"

namespace fasteep {

constinit const KernelTable kAvx2Table = this_units_table();

}  // namespace fasteep
