// Experts: down(silu(gate(x)) * up(x)) for the rows of each.
#include <algorithm>
#include <cstring>

#include "kernels/kernels_state.h"

namespace fasteep {

namespace {

int panels_of(int outputs) { return (outputs + kPanelWidth - 1) / kPanelWidth; }

// Packed expert: for each panel of the middle its gate panel then its up panel, so that one pass
// streams both; then the panels of down.
struct FfnLayout {
  explicit FfnLayout(const FfnShape& shape)
      : middle_panels(panels_of(shape.intermediate)),
        hidden_panels(panels_of(shape.hidden)),
        in_panel_bytes(packed_size_bytes(shape.dtype, kPanelWidth, shape.hidden)),
        down_panel_bytes(packed_size_bytes(shape.dtype, kPanelWidth, shape.intermediate)) {}
  size_t gate_offset(int panel) const { return 2 * in_panel_bytes * panel; }
  size_t up_offset(int panel) const { return gate_offset(panel) + in_panel_bytes; }
  size_t down_offset(int panel) const {
    return gate_offset(middle_panels) + down_panel_bytes * panel;
  }
  int middle_panels, hidden_panels;
  size_t in_panel_bytes, down_panel_bytes;
};

// Rows of one group in their three forms. x and h: prepared rows, [rows, x_stride | h_stride].
struct FfnRows {
  std::byte* x;
  std::byte* h;
  const std::byte* const* inputs;
  float* const* outputs;
  int count;
};

class FfnRunner {
 public:
  FfnRunner(const KernelTable& table, const FfnShape& shape)
      : table_(table), shape_(shape), layout_(shape), type_(static_cast<size_t>(shape.dtype)) {}

  size_t x_stride() const { return table_.prepared_bytes[type_](shape_.hidden); }
  size_t h_stride() const { return table_.prepared_bytes[type_](shape_.intermediate); }
  const FfnLayout& layout() const { return layout_; }

  void gather(const FfnRows& rows) const {
    for (int r = 0; r < rows.count; ++r)
      table_.prepare_native[type_](rows.inputs[r], shape_.hidden, rows.x + r * x_stride());
  }

  // h = round(silu(gate) * up) for one panel of the middle.
  void gate_up(const std::byte* weights, int panel, const FfnRows& rows) const {
    alignas(64) float gate[kRowBlock * kPanelWidth], up[kRowBlock * kPanelWidth];
    const int n = std::min(kPanelWidth, shape_.intermediate - panel * kPanelWidth);
    const size_t at = table_.prepared_bytes[type_](kPanelWidth) * panel;
    for (int first = 0; first < rows.count; first += kRowBlock) {
      const int count = std::min(kRowBlock, rows.count - first);
      const std::byte* x = rows.x + first * x_stride();
      table_.panel[type_](x, x_stride(), count, weights + layout_.gate_offset(panel), shape_.hidden,
                          gate);
      table_.panel[type_](x, x_stride(), count, weights + layout_.up_offset(panel), shape_.hidden,
                          up);
      table_.silu_mul(gate, up, count * kPanelWidth);
      for (int r = 0; r < count; ++r)
        table_.prepare[type_](gate + r * kPanelWidth, n, rows.h + (first + r) * h_stride() + at);
    }
  }

  void down(const std::byte* weights, int panel, const FfnRows& rows) const {
    alignas(64) float out[kRowBlock * kPanelWidth];
    const int n = std::min(kPanelWidth, shape_.hidden - panel * kPanelWidth);
    for (int first = 0; first < rows.count; first += kRowBlock) {
      const int count = std::min(kRowBlock, rows.count - first);
      table_.panel[type_](rows.h + first * h_stride(), h_stride(), count,
                          weights + layout_.down_offset(panel), shape_.intermediate, out);
      for (int r = 0; r < count; ++r)
        std::memcpy(rows.outputs[first + r] + panel * kPanelWidth, out + r * kPanelWidth,
                    sizeof(float) * n);
    }
  }

  // A whole group on one thread, in blocks of rows that stay in cache with their middle.
  void whole(const FfnGroup& group, FfnRows rows) const {
    const int total = rows.count;
    for (int first = 0; first < total; first += kRowBlock) {
      rows.count = std::min(kRowBlock, total - first);
      gather(rows);
      for (int p = 0; p < layout_.middle_panels; ++p) gate_up(group.weights, p, rows);
      for (int p = 0; p < layout_.hidden_panels; ++p) down(group.weights, p, rows);
      rows.inputs += rows.count;
      rows.outputs += rows.count;
    }
  }

 private:
  const KernelTable& table_;
  FfnShape shape_;
  FfnLayout layout_;
  size_t type_;
};

// A group's time in arbitrary units: reading the weights until the rows are many.
double group_cost(const FfnGroup& group) { return std::max(8, group.num_entries); }

}  // namespace

size_t ffn_size_bytes(const FfnShape& shape) {
  const FfnLayout layout(shape);
  return layout.down_offset(layout.hidden_panels);
}

void pack_ffn(const FfnShape& shape, DType source_dtype, const std::byte* gate, const std::byte* up,
              const std::byte* down, std::byte* destination) {
  const FfnLayout layout(shape);
  const size_t row_bytes = size_bytes(source_dtype) * shape.hidden;
  for (int panel = 0; panel < layout.middle_panels; ++panel) {
    const int first = panel * kPanelWidth;
    const int rows = std::min(kPanelWidth, shape.intermediate - first);
    for (bool is_gate : {true, false}) {
      std::byte* to = destination + (is_gate ? layout.gate_offset(panel) : layout.up_offset(panel));
      pack_begin(shape.dtype, rows, shape.hidden, to);
      pack_rows(shape.dtype, rows, shape.hidden, 0, rows, source_dtype,
                (is_gate ? gate : up) + first * row_bytes, to);
    }
  }
  std::byte* to = destination + layout.down_offset(0);
  pack_begin(shape.dtype, shape.hidden, shape.intermediate, to);
  pack_rows(shape.dtype, shape.hidden, shape.intermediate, 0, shape.hidden, source_dtype, down, to);
}

namespace {

// Groups by decreasing work, and the time of the busiest thread over the mean if threads took whole
// groups in that order.
double plan_whole_groups(std::span<const FfnGroup> groups, std::vector<int>& order,
                         std::vector<double>& loads) {
  order.clear();
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].num_entries > 0) order.push_back(static_cast<int>(g));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const int rows_a = groups[a].num_entries, rows_b = groups[b].num_entries;
    return rows_a != rows_b ? rows_a > rows_b : a < b;
  });
  std::fill(loads.begin(), loads.end(), 0.0);
  double total = 0;
  for (int g : order) {
    total += group_cost(groups[g]);
    *std::min_element(loads.begin(), loads.end()) += group_cost(groups[g]);
  }
  const double mean = total / static_cast<double>(loads.size());
  return total == 0 ? 1.0 : *std::max_element(loads.begin(), loads.end()) / mean;
}

constexpr double kSplitAbove = 1.15;  // imbalance worth two more synchronisations

}  // namespace

// One call of grouped_ffn, its groups ordered in `state`.
struct Kernels::FfnCall {
  State& state;
  const FfnRunner& runner;
  std::span<const FfnGroup> groups;
  std::span<const std::byte* const> inputs;
  std::span<float* const> outputs;

  FfnRows rows_of(const FfnGroup& group, std::byte* x, std::byte* h) const {
    return {x, h, inputs.data() + group.first_entry, outputs.data() + group.first_entry,
            group.num_entries};
  }

  // Threads take whole groups, the largest first.
  void run_whole() const {
    const std::vector<int>& order = state.order;
    const size_t most = std::min(kRowBlock, groups[order[0]].num_entries);
    const size_t x_bytes = runner.x_stride() * most, h_bytes = runner.h_stride() * most;
    for (Scratch& scratch : state.per_thread) scratch.at_least(x_bytes + h_bytes);
    const auto body = [&](int64_t begin, int64_t end, int thread) {
      std::byte* x = state.per_thread[thread].at_least(0);
      for (int64_t i = begin; i < end; ++i) {
        const FfnGroup& group = groups[order[i]];
        runner.whole(group, rows_of(group, x, x + x_bytes));
      }
    };
    state.pool.parallel_for(static_cast<int64_t>(order.size()), 1, body);
  }

  // All threads on all groups, phase by phase.
  void run_split() const {
    const FfnLayout& layout = runner.layout();
    std::byte* x = state.inputs.at_least(runner.x_stride() * inputs.size());
    std::byte* h = state.middle.at_least(runner.h_stride() * inputs.size());
    const auto rows = [&](const FfnGroup& group) {
      return rows_of(group, x + runner.x_stride() * group.first_entry,
                     h + runner.h_stride() * group.first_entry);
    };
    const auto gather = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) runner.gather(rows(groups[state.order[i]]));
    };
    state.pool.parallel_for(static_cast<int64_t>(state.order.size()), 1, gather);
    over_panels(layout.middle_panels, 2 * layout.in_panel_bytes,
                [&](const FfnGroup& g, int panel) { runner.gate_up(g.weights, panel, rows(g)); });
    over_panels(layout.hidden_panels, layout.down_panel_bytes,
                [&](const FfnGroup& g, int panel) { runner.down(g.weights, panel, rows(g)); });
  }

  template <class Body>
  void over_panels(int panels, size_t panel_bytes, const Body& body) const {
    const int64_t count = static_cast<int64_t>(state.order.size()) * panels;
    const int64_t chunk =
        std::max(state.streaming_chunk(count, panel_bytes), count / (4 * state.pool.num_threads()));
    state.pool.parallel_for(count, chunk, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        body(groups[state.order[i / panels]], static_cast<int>(i % panels));
    });
  }
};

void Kernels::grouped_ffn(const FfnShape& shape, std::span<const FfnGroup> groups,
                          std::span<const std::byte* const> inputs,
                          std::span<float* const> outputs) {
  State& s = *state_;
  s.loads.resize(s.pool.num_threads());
  const double imbalance = plan_whole_groups(groups, s.order, s.loads);
  if (s.order.empty()) return;
  const FfnRunner runner(s.table, shape);
  const FfnCall call{s, runner, groups, inputs, outputs};
  if (imbalance <= kSplitAbove)
    call.run_whole();
  else
    call.run_split();
}

}  // namespace fasteep
