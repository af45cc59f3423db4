// One function per verb: arguments after the verb in, Status out. Results go to standard output, progress to standard error.
#pragma once

#include <string>
#include <vector>

#include "parbuckle/status.h"

namespace parbuckle::tool {

using Arguments = std::vector<std::string>;

Status run_train(const Arguments& arguments);
Status run_plan(const Arguments& arguments);
Status run_probe(const Arguments& arguments);
Status run_eval(const Arguments& arguments);
Status run_generate(const Arguments& arguments);
Status run_inspect(const Arguments& arguments);
Status run_tokenize(const Arguments& arguments);
Status run_devices(const Arguments& arguments);

}  // namespace parbuckle::tool
