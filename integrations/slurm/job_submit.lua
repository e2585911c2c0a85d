-- job_submit.lua of slurmctld: refuses a job that asks by --xsched for a higher class than its QoS
-- or its partition allows, and says why. Needs JobSubmitPlugins=lua in slurm.conf.
--
-- What is allowed stands in plugstack.conf, in the line for spank_xsched.so: the nodes go by it too,
-- and lower what comes past this. A site with a script of its own loads this file by dofile, and
-- begins its slurm_job_submit with:
--
--   if xsched_refuses(job, partitions) then return slurm.ESLURM_ACCESS_DENIED end

local OPTION = "_SLURM_SPANK_OPTION_xsched_xsched="
local RANKS = { batch = 1, normal = 2, interactive = 3 }

-- Lines of a file without comments.
local function lines(path)
    local file, found = io.open(path), {}
    if not file then
        slurm.log_error("xsched: cannot read %s; jobs are not refused", path)
        return found
    end
    for line in file:lines() do
        found[#found + 1] = (line:gsub("#.*", ""))
    end
    file:close()
    return found
end

-- The words `KEY=VALUE` behind the plugin's file.
local function settings()
    local conf = os.getenv("SLURM_CONF") or "/etc/slurm/slurm.conf"
    local stack, found = conf:gsub("[^/]*$", "plugstack.conf"), {}
    for _, line in ipairs(lines(conf)) do
        local key, value = line:match("^%s*(%a+)%s*=%s*(%S+)")
        if key and key:lower() == "plugstackconfig" then
            stack = value
        end
    end
    for _, line in ipairs(lines(stack)) do
        if line:find("spank_xsched.so", 1, true) then
            for key, value in line:gmatch("([^%s=]+)=(%S+)") do
                found[key] = value
            end
        end
    end
    return found
end

-- The class that a job asks for, if it does.
local function asked_by(job)
    for _, variable in pairs(job.spank_job_env or {}) do
        if variable:sub(1, #OPTION) == OPTION then
            return variable:sub(#OPTION + 1):match("^%a+")
        end
    end
    return nil
end

-- Names of the partitions that a job may run in.
local function partitions_of(job, partitions)
    local names = {}
    for name in (job.partition or ""):gmatch("[^,]+") do
        names[#names + 1] = name
    end
    for name, partition in pairs(partitions) do
        if not job.partition and partition.flag_default == 1 then
            names[#names + 1] = name
        end
    end
    return names
end

-- Whether a job asks for more than it may have. The user is told.
function xsched_refuses(job, partitions)
    local asked = asked_by(job)
    local rank = RANKS[asked]
    if not rank then
        return false
    end
    local words, qos = settings(), job.qos or job.default_qos
    local of_qos = qos and words["max.qos:" .. qos]
    local limits = {}
    if of_qos then
        limits["QoS " .. qos] = of_qos
    else
        for _, name in ipairs(partitions_of(job, partitions)) do
            limits["partition " .. name] = words["max." .. name] or words.max
        end
    end
    for place, limit in pairs(limits) do
        if rank > (RANKS[limit] or rank) then
            local text = "--xsched=%s: %s allows %s at most; ask for that, or for another QoS or partition"
            slurm.log_user(text, asked, place, limit)
            return true
        end
    end
    return false
end

function slurm_job_submit(job, partitions, _)
    if xsched_refuses(job, partitions) then return slurm.ESLURM_ACCESS_DENIED end
    return slurm.SUCCESS
end

-- Nodes lower the class of a job that is moved to another partition.
function slurm_job_modify(_, _, _, _)
    return slurm.SUCCESS
end
