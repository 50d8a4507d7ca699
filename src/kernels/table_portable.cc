#include "kernels/table_impl.h"

namespace fasteep {

constinit const KernelTable kPortableTable = this_units_table();

}  // namespace fasteep
