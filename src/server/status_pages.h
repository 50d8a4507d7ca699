#pragma once
// What may be asked at any time and without a key: health, version, metrics.
#include <memory>

#include "engine/engine.h"
#include "server/router.h"
#include "server/server_metrics.h"
#include "server/session_registry.h"

namespace fasteep {

// All of these outlive the routes.
void add_status_pages(Router& router, const Engine& engine, const ServerMetrics& metrics,
                      std::shared_ptr<SessionRegistry> registry);

}  // namespace fasteep
